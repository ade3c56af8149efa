"""What a worker holds while it works on a job, and what it reports back."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from beacon_contracts.events import EventType
from beacon_contracts.failures import Failure
from beacon_contracts.files import InputFile, OutputFile
from beacon_contracts.ids import JobId, UserId
from beacon_contracts.inference import Failover, RemoteRun, RunProgress, Timing
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_contracts.tiers import Tier


class PlannedExecution(NamedTuple):
    """One inference of a stage. `ordinal` is its index in the stage's plan and never changes."""

    ordinal: int
    item: str
    model: str
    region: str
    failover: Failover
    input: Mapping[str, Any]
    params: Mapping[str, Any]


class RecordedExecution(NamedTuple):
    """An execution as earlier deliveries or attempts have recorded it.

    `PENDING`: it has to run (again) as `attempt`. `QUEUED`, `RUNNING`: its worker died; `attempt` continues.
    A worker never repeats a terminal one: a retry (`RetryLater`, resume, retry-question) makes it `PENDING`.
    `remote`: a run of this attempt that may go on at its backend.
    """

    ordinal: int
    state: ExecutionState
    attempt: int
    failure: Failure | None = None
    output: Any = None  # of a pipeline's step only: later steps need it
    remote: RemoteRun | None = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """The router did not accept it now: no attempt is charged. `times` counts deferrals in a row."""

    delay_s: float
    reason: str
    times: int = 1


class ClaimedJob(NamedTuple):
    """A job that only this worker may change while `fence` is the newest.

    `state` is `processing` if an execution of this stage and attempt has started before this claim.
    `deliveries` counts claims in a row without progress, this one included. `files`, by id: those that the
    inputs of its stage name, unless one of them is `unusable_file`.
    """

    id: JobId
    user: UserId
    fence: int
    generation: int
    stage: int
    stages: int
    attempt: int
    kind: str
    spec: Mapping[str, Any]
    context: Mapping[str, Any]
    tier: Tier
    front: bool
    weight: float = 1.0
    deliveries: int = 1
    deferred: Deferred | None = None
    recorded_executions: tuple[RecordedExecution, ...] = ()
    files: Mapping[str, InputFile] = MappingProxyType({})
    unusable_file: str | None = None
    state: JobState = JobState.QUEUED

    @property
    def may_be_running(self) -> bool:
        """Whether an earlier claim may have started it: every claim increments the fence, durably."""
        return self.fence > 1


class ExecutionReport(NamedTuple):
    """The newest state of one execution.

    `QUEUED`: it waits at a router. `RUNNING`: it is on a GPU. `PENDING`: no router has it any more.
    `started_at` is set if it runs or ran. `start_reported`: it is recorded as running. Otherwise a terminal
    report contains its start, which saves a write.
    `stored` is the output as JSON text, where it is known already; `response` the complete response of the
    backend as JSON text. Times are Unix times.
    """

    execution: PlannedExecution
    state: ExecutionState
    attempt: int
    output: Any = None
    failure: Failure | None = None
    actual_region: str | None = None
    backend: str | None = None
    timing: Timing | None = None
    started_at: float | None = None
    finished_at: float | None = None
    start_reported: bool = False
    stored: str | None = None
    response: str | None = None
    files: tuple[OutputFile, ...] = ()
    usage: Mapping[str, int] | None = None


class RunUpdate(NamedTuple):
    """What a backend has reported of a run that goes on.

    `remote` None: no run of it goes on at a backend. `progress` None: it is unchanged.
    """

    execution: PlannedExecution
    attempt: int
    remote: RemoteRun | None
    progress: RunProgress | None


@dataclass(frozen=True, slots=True)
class NextStage:
    """The stage is complete; its result is in `context` under the step's name."""

    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finished:
    state: JobState
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RetryLater:
    """An attempt was used up; the unfinished retryable executions run again after the delay."""

    delay_s: float
    failure: Failure


@dataclass(frozen=True, slots=True)
class Dead:
    """Nothing more is retried automatically. `state` is partial when some executions completed."""

    state: JobState
    reason: str
    failure: Failure
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Returned:
    """The worker stops and releases the job unchanged: neither attempt nor delivery is charged.

    The message keeps its generation: record this first, then `nack` the message.
    """


Verdict = NextStage | Finished | RetryLater | Deferred | Dead | Returned


class EventDraft(NamedTuple):
    """An event without its number, which it gets when it is stored; `at` is set if it happened earlier."""

    type: EventType
    data: Mapping[str, Any] = {}
    at: datetime | None = None


class StageReport(NamedTuple):
    """Everything that one write records about one job: fenced, and applied whole or not at all.

    `earlier` are the results that previous reports of this delivery have recorded; the counts need them.
    Without a verdict it is a progress report, and the job stays with the worker.
    """

    claimed: ClaimedJob
    executions: tuple[ExecutionReport, ...] = ()
    verdict: Verdict | None = None
    earlier: tuple[ExecutionReport, ...] = ()
    updates: tuple[RunUpdate, ...] = ()

    @property
    def started_at(self) -> float | None:
        """When the first of its executions got onto a GPU."""
        return min((one.started_at for one in self.executions if one.started_at is not None), default=None)


class ExecutionCounts(NamedTuple):
    """How many executions of a job have ended, by state."""

    completed: int
    failed: int
    cancelled: int


def count_executions(report: StageReport) -> ExecutionCounts:
    """The counts after the report is applied. Earlier stages, of one execution each, are complete."""
    job = report.claimed
    newest: dict[int, RecordedExecution | ExecutionReport] = {
        recorded.ordinal: recorded for recorded in job.recorded_executions
    }
    for result in (*report.earlier, *report.executions):
        newest[result.execution.ordinal] = result
    completed, failed, cancelled = job.stage, 0, 0
    for one in newest.values():
        if one.state is ExecutionState.COMPLETED:
            completed += 1
        elif one.state is ExecutionState.FAILED:
            failed += not (isinstance(report.verdict, RetryLater) and _is_retryable(one))
        elif one.state is ExecutionState.CANCELLED:
            cancelled += 1
    return ExecutionCounts(completed, failed, cancelled)


def _is_retryable(one: RecordedExecution | ExecutionReport) -> bool:
    return one.failure is not None and one.failure.retryable
