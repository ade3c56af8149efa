"""What a worker holds while it works on a job, and what it reports back."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from beacon_contracts.events import EventType
from beacon_contracts.failures import Failure
from beacon_contracts.ids import JobId, UserId, timestamp_of
from beacon_contracts.inference import Failover, Timing
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_contracts.tiers import Tier
from beacon_runner.domain.record import record

ERA_BITS = 20  # of a fence count claims; the others name the era
CLOCKS_DIFFER_S = 5.0


@record
class PlannedExecution:
    """One inference of a stage. `ordinal` is its place in the stage's plan and never changes."""

    ordinal: int
    item: str
    model: str
    region: str
    failover: Failover
    input: Mapping[str, Any]
    params: Mapping[str, Any]


@record
class KnownExecution:
    """What earlier deliveries or attempts have recorded of an execution.

    `PENDING` means that it is to run (again) as `attempt`; `RUNNING` that a worker was lost in the middle of
    `attempt`, which goes on. A terminal one is never run again by a worker: whoever queues a retry
    (`RetryLater`, resume, retry-question) sets those that shall run to `PENDING` first.
    """

    ordinal: int
    state: ExecutionState
    attempt: int
    failure: Failure | None = None
    output: Any = None  # of a pipeline's step only: later steps need it
    told: bool = False  # that this attempt was handed to the router


@record
class Deferred:
    """The router could not take it now: no attempt is charged. `times` counts those in a row."""

    delay_s: float
    reason: str
    times: int = 1


@record
class ClaimedJob:
    """A job that this worker alone may change while `fence` is the newest."""

    id: JobId
    user: UserId
    fence: int
    ticket: int
    stage: int
    stages: int
    attempt: int
    kind: str
    spec: Mapping[str, Any]
    context: Mapping[str, Any]
    tier: Tier
    front: bool
    claimed_before: bool = False
    postponed: Deferred | None = None
    known: tuple[KnownExecution, ...] = ()

    @property
    def may_be_running(self) -> bool:
        """Whether somebody may have started it: by an earlier claim or grant, or by one that a crash forgot.

        Each of them counts the fence up. They are forgotten only when an era of fences ends
        (docs/decisions/0008), and the fence names the second in which the present one began: jobs that are
        younger have lost none.
        """
        era_s = self.fence >> ERA_BITS
        first = (era_s << ERA_BITS) + 1
        return self.claimed_before or self.fence > first or timestamp_of(self.id) < era_s + CLOCKS_DIFFER_S


@record
class ExecutionReport:
    """The newest state of one execution; `RUNNING` when it has just started, `PENDING` when it was not taken.

    A terminal report of an execution whose start was never reported says both at once, which saves a write.
    `stored` is the output as it is stored, where that is known already. The moments are in Unix time.
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


@record
class NextStage:
    """The stage is complete; its result is in `context` under the step's name."""

    context: Mapping[str, Any]


@record
class Finished:
    state: JobState
    context: Mapping[str, Any]


@record
class RetryLater:
    """An attempt was used up; the unfinished retryable executions run again after the delay."""

    delay_s: float
    failure: Failure


@record
class Dead:
    """Nothing more will be tried by itself. `state` is partial when some executions completed."""

    state: JobState
    reason: str
    failure: Failure
    context: Mapping[str, Any]


@record
class Returned:
    """The worker stops and gives the job back untouched: neither attempt nor delivery is charged.

    The message keeps its ticket: record this first, then `give_back` the message.
    """


Verdict = NextStage | Finished | RetryLater | Deferred | Dead | Returned


@record
class EventDraft:
    """An event that gets its number when it is stored, and its time too unless `at` says when it happened."""

    type: EventType
    data: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None


@record
class StageReport:
    """Everything that one write says about one job: fenced, and applied whole or not at all.

    Events that follow from `executions` and `verdict` are added by the store (`domain/journal.py`);
    `events` are those that only the worker knows of (`WAITING`, `QUEUE_POSITION`).
    Without a verdict it is a note of progress, and the job stays with the worker.
    """

    claimed: ClaimedJob
    executions: tuple[ExecutionReport, ...] = ()
    events: tuple[EventDraft, ...] = ()
    verdict: Verdict | None = None

    @property
    def job(self) -> JobId:
        return self.claimed.id

    @property
    def fence(self) -> int:
        return self.claimed.fence
