"""What a user may do to a job after submission: cancel, resume, retry one execution."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beacon_contracts.events import EventType
from beacon_contracts.failures import Failure
from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.lanes import lane_of
from beacon_runner.domain.messages import Message
from beacon_runner.domain.plan import places
from beacon_runner.domain.stage_result import EventDraft
from beacon_runner.domain.states import LIVE
from beacon_runner.domain.verdict import RetryPolicy, allowed_attempts
from beacon_runner.ports.cancels import RouterCancel
from beacon_runner.postgres.cancels import cancel_of, leave_trace
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.job_queries import JobRecord
from beacon_runner.postgres.refunds import refund
from beacon_runner.postgres.report_params import encode_events
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("control")
_RECORD = statements("record")


class NoSuchJobError(Exception):
    """There is no such job, or it is not this user's to see."""


class NoSuchExecutionError(Exception):
    """The job has no execution of that number."""


class WrongStateError(Exception):
    """The job is in a state that does not allow what was asked."""

    def __init__(self, state: JobState, message: str) -> None:
        super().__init__(message)
        self.state = state


class NotRetryableError(Exception):
    """The failure is permanent: trying again would give the same."""

    def __init__(self, failure: Failure | None) -> None:
        super().__init__(failure.message if failure else "nothing has failed that could be tried again")
        self.failure = failure


class RetriesUsedUpError(Exception):
    def __init__(self, retry_attempt: int, max_attempts: int) -> None:
        super().__init__(f"this execution was retried {retry_attempt} of {max_attempts} times")
        self.retry_attempt = retry_attempt
        self.max_attempts = max_attempts


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What is left to do: `waiting` may still wait in Redis, `at_router` may still run there."""

    changed: bool
    waiting: Message | None = None
    at_router: RouterCancel | None = None


@dataclass(frozen=True, slots=True)
class RetriedExecution:
    """`queued` is false when it had completed or is on its way already: no second run."""

    state: ExecutionState
    queued: bool
    retry_attempt: int
    max_attempts: int


class JobControl:
    """`owner` None stands for an operator, who may touch every job."""

    def __init__(self, database: Database, policy: RetryPolicy, *, router_cancels: int) -> None:
        self._database = database
        self._policy = policy
        self._router_cancels = router_cancels

    async def cancel(self, job: JobId, owner: UserId | None) -> Cancelled:
        async with self._database.transaction() as connection:
            row = await _locked(connection, job, owner)
            state = JobState(row["state"])
            if state is JobState.CANCELLED:
                return Cancelled(changed=False)
            if state not in LIVE:
                raise WrongStateError(state, f"a job that is {state} cannot be cancelled")
            (ended,) = await connection.fetch(_SQL["cancel"], job)
            await connection.execute(_SQL["cancel_executions"], job)
            at_router = await self._at_router(connection, ended) if row["fence"] else None
            held = state is JobState.PROCESSING
            if not held:  # otherwise the routers say whether it ran
                await refund(connection, [job])
            told = encode_events([EventDraft(EventType.JOB_CANCELLED)])
            await connection.execute(_SQL["tell"], job, ended["event_seq"], told)
            return Cancelled(changed=True, waiting=None if held else _message(row), at_router=at_router)

    async def tell_standing(self, seen: JobRecord, event: EventDraft, position: int) -> bool:
        """Whether it was told: not when the job has moved on meanwhile, or when it was told already."""
        head = seen.head
        told = await self._database.fetchval(
            _SQL["tell_standing"],
            head.id,
            head.state,
            seen.generation,
            event.type,
            position,
            encode_events([event]),
        )
        return told is not None

    async def resume(self, job: JobId, owner: UserId | None) -> None:
        async with self._database.transaction() as connection:
            row = await _locked(connection, job, owner)
            state, failure = JobState(row["state"]), _failure(row)
            if state not in (JobState.FAILED, JobState.PARTIAL):
                raise WrongStateError(state, f"a job that is {state} cannot be resumed")
            if failure is None or not failure.retryable:
                raise NotRetryableError(failure)
            await connection.execute(_RECORD["try_again"], [job], False)
            await self._requeue(connection, job, 1, "resumed")

    async def retry_execution(
        self, job: JobId, stage: int, ordinal: int, owner: UserId | None
    ) -> RetriedExecution:
        async with self._database.transaction() as connection:
            row = await _locked(connection, job, owner)
            if not _exists(row["spec"], stage, ordinal):
                raise NoSuchExecutionError
            execution = await connection.fetchrow(_SQL["lock_execution"], job, stage, ordinal)
            answer = self._retry_answer(row, execution)
            if answer.queued:
                await connection.execute(_SQL["try_one_again"], job, stage, ordinal)
                if JobState(row["state"]) in LIVE:  # it waits, and its next claim takes this one along
                    await connection.execute(_RECORD["recount"], [job])
                else:
                    # As the last allowed attempt: its failure must not set off a retry of all the others.
                    await self._requeue(connection, job, self._allowed(row), "retry")
            return answer

    def _retry_answer(self, job: Any, execution: Any) -> RetriedExecution:
        most = self._policy.retries
        job_state = JobState(job["state"])
        if job_state is JobState.CANCELLED:
            raise WrongStateError(job_state, "a cancelled job has nothing to retry")
        state = ExecutionState(execution["state"]) if execution is not None else ExecutionState.PENDING
        used = execution["retries"] if execution is not None else 0
        if state is ExecutionState.FAILED:
            failure = _failure(execution)
            if failure is None or not failure.retryable:
                raise NotRetryableError(failure)
            if job_state is not JobState.PROCESSING:
                if used >= most:
                    raise RetriesUsedUpError(used, most)
                return RetriedExecution(ExecutionState.PENDING, True, used + 1, most)
            if job["attempt"] >= self._allowed(job):  # otherwise its job tries it again by itself
                raise WrongStateError(job_state, "its job goes on without it; retry it when that has ended")
        elif job_state not in LIVE and state is not ExecutionState.COMPLETED:
            raise WrongStateError(
                job_state, f"this execution never ran; resume the job, which is {job_state}"
            )
        return RetriedExecution(state, False, used, most)

    def _allowed(self, job: Any) -> int:
        return allowed_attempts(job["spec"], job["stage"], self._policy)

    async def _requeue(self, connection: "Connection", job: JobId, attempt: int, reason: str) -> None:
        event = EventDraft(EventType.JOB_QUEUED, {"reason": reason})
        await connection.fetch(_SQL["requeue"], [job], [attempt], encode_events([event]))
        await connection.execute(_RECORD["recount"], [job])

    async def _at_router(self, connection: "Connection", row: Any) -> RouterCancel:
        """What a worker may have left there, with a trace of it for whoever lives to tell the routers."""
        await leave_trace(connection, row["id"])
        return await cancel_of(connection, row, 0.0, self._router_cancels)


async def _locked(connection: "Connection", job: JobId, owner: UserId | None) -> Any:
    row = await connection.fetchrow(_SQL["lock_job"], job)
    if row is None or (owner is not None and row["user_id"] != owner):
        raise NoSuchJobError
    return row


def _exists(spec: Mapping[str, Any], stage: int, ordinal: int) -> bool:
    return any(place.stage == stage and place.ordinal == ordinal for place in places(spec))


def _failure(row: Any) -> Failure | None:
    return None if row["failure"] is None else Failure.model_validate(row["failure"])


def _message(row: Any) -> Message:
    return Message(
        JobId(row["id"]),
        row["generation"],
        row["stage"],
        row["attempt"],
        JobClass(row["class"]),
        lane_of(row["lane"], row["user_id"]),
    )
