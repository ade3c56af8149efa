"""Operations on many jobs: each step changes a batch of jobs and the progress in one transaction."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never
from uuid import UUID

from beacon_contracts.accounts import DisabledJobs
from beacon_contracts.audit import AuditAction
from beacon_contracts.events import EventType
from beacon_contracts.ids import (
    OPERATION,
    USER,
    JobId,
    OperationId,
    UserId,
    encode_id,
    encode_job_id,
    new_uuid,
)
from beacon_contracts.jobs import JobState
from beacon_contracts.operations import JobSelector, OperationAction
from beacon_runner.domain.accounts.audit import SYSTEM, Actor
from beacon_runner.domain.errors import JobNotFoundError, JobStateError, UserNotFoundError
from beacon_runner.domain.execution.stage_result import EventDraft
from beacon_runner.domain.jobs.operations import JobOperation, OperationStep, Selection
from beacon_runner.domain.jobs.states import TERMINAL
from beacon_runner.domain.queue.messages import Message
from beacon_runner.postgres.accounts.audit import add_entry
from beacon_runner.postgres.accounts.user_jobs import end_jobs, stop_jobs
from beacon_runner.postgres.database import Database, retried, retry_on_conflict
from beacon_runner.postgres.jobs.job_pages import fetch_page
from beacon_runner.postgres.jobs.report_params import encode_events
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("operations")
_COMMANDS = statements("job_commands")
_RESULTS = statements("results")
_TEXTS = frozenset({"tag", "metadata", "name"})
_MAX_ID = JobId(UUID(int=2**128 - 1))


class PostgresOperations:
    """A step that a crash interrupts is rolled back with its progress, and another process repeats it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, user: UserId, action: OperationAction, selection: Selection, *, by: Actor = SYSTEM
    ) -> JobOperation:
        async with self._database.transaction() as connection:
            operation = await _add(connection, user, action, selection)
            jobs, owner = selection.jobs, selection.owner
            details = {
                "action": action,
                "jobs": None if jobs is None else len(jobs),
                "user_id": None if owner is None else encode_id(USER, owner),
                "filter": None if selection.selector is None else _conditions(selection.selector),
            }
            target = encode_id(OPERATION, operation.id)
            await add_entry(connection, by, AuditAction.BULK_STARTED, target, details)
            return operation

    async def get(self, operation: OperationId, owner: UserId | None) -> JobOperation | None:
        row = await self._database.fetchrow(_SQL["operation"], operation, owner)
        return None if row is None else _operation(row)

    @retry_on_conflict
    async def delete_job(self, job: JobId, *, by: Actor = SYSTEM) -> bool:
        """Delete a job that has ended; false while something of it may run."""
        state = await self._database.fetchval(_SQL["job_state"], job)
        if state is None:
            raise JobNotFoundError
        if JobState(state) not in TERMINAL:
            raise JobStateError(JobState(state), f"a job that is {state} cannot be deleted; cancel it first")
        async with self._database.transaction() as connection:
            deleted = bool(await connection.fetchval(_SQL["delete_jobs"], [job]))
            if deleted:
                await add_entry(connection, by, AuditAction.JOB_DELETED, encode_job_id(job), {})
        return deleted

    async def delete_user(self, user: UserId, requester: UserId, *, by: Actor = SYSTEM) -> JobOperation:
        """Disable the user, cancel its jobs, and store the operation that deletes its data."""

        async def transaction() -> JobOperation:
            async with self._database.transaction() as connection:
                if await connection.fetchval(_SQL["mark_deleted"], user) is None:
                    raise UserNotFoundError
                await stop_jobs(connection, user, DisabledJobs.CANCEL)
                await add_entry(connection, by, AuditAction.USER_DELETED, encode_id(USER, user), {})
                return await _add(connection, requester, OperationAction.DELETE_USER, Selection(user))

        return await retried(transaction)

    async def step(self, limit: int) -> OperationStep | None:
        """Do the next jobs of the operation that has waited longest; None without any."""
        taken: list[OperationId] = []

        async def transaction() -> OperationStep | None:
            async with self._database.transaction() as connection:
                row = await connection.fetchrow(_SQL["take"])
                if row is None:
                    return None
                taken[:] = [row["id"]]
                return await _step(connection, _operation(row), JobId(row["below"]), limit)

        try:
            return await retried(transaction)
        except BaseException:
            for operation in taken:
                await self._database.execute(_SQL["postpone"], operation)
            raise

    async def forget(self, finished_s: float) -> None:
        await self._database.execute(_SQL["forget"], finished_s)


def _conditions(selector: JobSelector) -> dict[str, Any]:
    """For the audit log, from which nothing can be deleted: without texts of users."""
    given = selector.model_dump(mode="json", exclude_defaults=True, exclude={"user", "all_users"})
    return {name: "given" if name in _TEXTS else value for name, value in given.items()}


async def _step(connection: "Connection", operation: JobOperation, below: JobId, limit: int) -> OperationStep:
    jobs, after = await _next_jobs(connection, operation.selection, below, limit)
    step = await _apply(connection, operation.action, jobs)
    matched, finished = len(jobs), after is None
    if operation.action is OperationAction.DELETE_USER:
        matched = step.changed  # jobs that something may still run of are visited again
        user = operation.selection.owner
        if finished and await connection.fetchval(_SQL["may_have_jobs"], user):
            after, finished = _MAX_ID, False
            step = OperationStep(step.changed, step.ended, step.deleted, waits=True)
        elif finished:
            await connection.execute(_SQL["erase_user"], user)
    await connection.execute(_SQL["progress"], operation.id, after or below, matched, step.changed, finished)
    return step


async def _next_jobs(
    connection: "Connection", selection: Selection, below: JobId, limit: int
) -> tuple[list[JobId], JobId | None]:
    """Some of the jobs, newest first, and the id below which the others are; None if there are none."""
    if selection.jobs is None:
        page = await fetch_page(connection, selection.filter, below, limit)
        return [JobId(row["id"]) for row in page.rows], page.next
    # Ids of other users, and of none, are not among the matched ones.
    left = sorted((job for job in set(selection.jobs) if job < below), reverse=True)
    rows = await connection.fetch(_SQL["given_jobs"], left, selection.owner)
    jobs = [JobId(row["id"]) for row in rows[:limit]]
    return jobs, jobs[-1] if len(rows) > limit else None


async def _apply(connection: "Connection", action: OperationAction, jobs: Sequence[JobId]) -> OperationStep:
    match action:
        case OperationAction.CANCEL:
            ended = await _cancel(connection, jobs)
            return OperationStep(len(ended), ended)
        case OperationAction.RESUME | OperationAction.RETRY:
            return await _queue_again(connection, jobs, everything=action is OperationAction.RETRY)
        case OperationAction.DELETE | OperationAction.DELETE_USER:
            # A process that still knew the key may have stored a job after the others were cancelled.
            late = await _cancel(connection, jobs) if action is OperationAction.DELETE_USER else ()
            deleted = int(await connection.fetchval(_SQL["delete_jobs"], jobs))
            return OperationStep(deleted, late, tuple(jobs))
        case _:
            assert_never(action)


async def _cancel(connection: "Connection", jobs: Sequence[JobId]) -> tuple[Message, ...]:
    event = EventDraft(EventType.JOB_CANCELLED)
    return tuple(await end_jobs(connection, jobs, JobState.CANCELLED, event))


async def _queue_again(connection: "Connection", jobs: Sequence[JobId], *, everything: bool) -> OperationStep:
    """`everything`: also executions whose failure is permanent, or that were cancelled."""
    chosen = [row["id"] for row in await connection.fetch(_SQL["lock_resumable"], jobs, everything)]
    await connection.execute(_COMMANDS["lock_users_of_waits"], chosen)
    await connection.execute(_RESULTS["try_again"], chosen, everything, None)
    events = encode_events([EventDraft(EventType.JOB_QUEUED, {"reason": "resumed"})])
    await connection.fetch(_COMMANDS["requeue"], chosen, [1] * len(chosen), events)
    await connection.execute(_RESULTS["recount"], chosen)
    return OperationStep(len(chosen), queued=bool(chosen))


async def _add(
    store: "Connection", user: UserId, action: OperationAction, selection: Selection
) -> JobOperation:
    row = await store.fetchrow(_SQL["add"], new_uuid(), user, action, selection.document())
    return _operation(row)


def _operation(row: Any) -> JobOperation:
    return JobOperation(
        OperationId(row["id"]),
        UserId(row["user_id"]),
        OperationAction(row["action"]),
        Selection.of(row["selection"]),
        row["matched"],
        row["changed"],
        row["created_at"],
        row["finished_at"],
    )
