"""Reading jobs, and storing what was decided about them."""

from collections.abc import Collection, Sequence
from typing import Protocol

from beacon_contracts.ids import JobId, UserId
from beacon_runner.domain.accounts.credit import Payment
from beacon_runner.domain.execution.plan import ExecutionKey
from beacon_runner.domain.execution.stage_result import EventDraft
from beacon_runner.domain.jobs.commands import CancelDecision, JobVersion, RetryDecision, SkipDecision
from beacon_runner.domain.jobs.job_filter import JobFilter
from beacon_runner.domain.jobs.records import (
    AttemptRecord,
    EventRecord,
    ExecutionPart,
    ExecutionRecord,
    JobHeads,
    JobRecord,
    LiveCount,
    LiveJob,
    SentExecutions,
)
from beacon_runner.ports.cancels import RouterCancel


class JobQueries(Protocol):
    async def job(self, job: JobId) -> JobRecord | None: ...

    async def executions(self, job: JobId, keys: Sequence[ExecutionKey], *, outputs: bool) -> ExecutionPart:
        """What is recorded of these executions, until their outputs are too large."""
        ...

    async def ended_executions(self, job: JobId, stage: int) -> Collection[int]:
        """The ordinals of a stage's executions that have ended."""
        ...

    async def sent_executions(self, job: JobId) -> SentExecutions: ...

    async def execution(self, job: JobId, stage: int, ordinal: int) -> ExecutionRecord | None: ...

    async def attempts(self, job: JobId, stage: int, ordinal: int) -> Sequence[AttemptRecord]:
        """The earlier attempts of an execution."""
        ...

    async def page(self, wanted: JobFilter, *, after: JobId | None = None, limit: int) -> JobHeads:
        """Newest first, with ids below `after`; bounded work, however many jobs there are."""
        ...

    async def events(self, job: JobRecord, after: int, limit: int) -> Sequence[EventRecord]:
        """Events with numbers above `after`, from at most `limit` rows."""
        ...

    async def live_jobs(self, jobs: Sequence[JobId]) -> Sequence[LiveJob]:
        """Those of the jobs that are live, in no order."""
        ...

    async def counts(self) -> Sequence[LiveCount]: ...


class JobCommands(Protocol):
    """Each command raises `JobChangedError` and changes nothing if the job is not in the given version."""

    async def cancel(self, version: JobVersion, decision: CancelDecision) -> RouterCancel | None:
        """The executions that may be at a router; the request to cancel them is stored too."""
        ...

    async def resume(self, version: JobVersion) -> None: ...

    async def retry_execution(self, version: JobVersion, ordinal: int, decision: RetryDecision) -> None:
        """An execution of the current stage."""
        ...

    async def skip(self, version: JobVersion, decision: SkipDecision, payer: UserId) -> Payment:
        """Charge the payer and move the job to the front in one transaction."""
        ...

    async def add_position_event(self, version: JobVersion, event: EventDraft, position: int) -> bool:
        """False when the job has changed, or its last event has the same position."""
        ...
