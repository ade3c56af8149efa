"""Dead letters: jobs that are not retried automatically any more."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beacon_contracts.audit import AuditAction
from beacon_contracts.events import EventType
from beacon_contracts.failures import Failure
from beacon_contracts.ids import JobId, UserId, encode_job_id
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.accounts.audit import SYSTEM, Actor
from beacon_runner.domain.execution.stage_result import EventDraft
from beacon_runner.domain.jobs.dead_letters import DeadLetter, DeadLetterCursor
from beacon_runner.domain.jobs.states import JobTransition, allows
from beacon_runner.postgres.accounts.audit import add_entry
from beacon_runner.postgres.database import Database, retry_on_conflict
from beacon_runner.postgres.jobs.report_params import encode_events
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("dead_letters")
_COMMANDS = statements("job_commands")
_RESULTS = statements("results")
_BATCH_SIZE = 500
_RECORDED_JOBS = 100  # ids in an entry of the audit log


class PostgresDeadLetters:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, after: DeadLetterCursor | None, limit: int) -> list[DeadLetter]:
        """Newest first."""
        start = (None, None) if after is None else (after.died_at, after.job)
        return [_letter(row) for row in await self._database.fetch(_SQL["dead_page"], *start, limit)]

    async def count(self) -> int:
        return int(await self._database.fetchval(_SQL["dead_count"]))

    @retry_on_conflict
    async def purge(self, jobs: Sequence[JobId] | None, *, by: Actor = SYSTEM) -> list[JobId]:
        """Remove these dead letters, or all; returns the removed ones."""
        async with self._database.transaction() as connection:
            if jobs is None:
                rows = await connection.fetch(_SQL["purge_all"])
            else:
                rows = await connection.fetch(_SQL["purge"], jobs)
            removed = [JobId(row["job_id"]) for row in rows]
            await _add_entry(connection, by, AuditAction.DEAD_LETTERS_PURGED, removed)
        return removed

    async def requeue(self, jobs: Sequence[JobId] | None, *, by: Actor = SYSTEM) -> list[JobId]:
        """Queue these jobs again, or all that are dead now, with their attempts reset."""
        requeued: list[JobId] = []
        if jobs is not None:
            for start in range(0, len(jobs), _BATCH_SIZE):
                requeued += await self._requeue_batch(jobs[start : start + _BATCH_SIZE], by)
            return requeued
        for newest in await self.page(None, 1):
            while chosen := await self._database.fetch(_SQL["take_letters"], _BATCH_SIZE, newest.died_at):
                done = await self._requeue_batch([JobId(row["job_id"]) for row in chosen], by)
                if not done:
                    break
                requeued += done
        return requeued

    @retry_on_conflict
    async def _requeue_batch(self, jobs: Sequence[JobId], by: Actor) -> list[JobId]:
        event = EventDraft(EventType.JOB_QUEUED, {"reason": "requeued"})
        async with self._database.transaction() as connection:
            rows = await connection.fetch(_SQL["lock_dead"], jobs)
            chosen = [row["id"] for row in rows if allows(JobTransition.REQUEUED, JobState(row["state"]))]
            await connection.execute(_RESULTS["try_again"], chosen, True, None)
            attempts = [1] * len(chosen)
            rows = await connection.fetch(_COMMANDS["requeue"], chosen, attempts, encode_events([event]))
            await connection.execute(_RESULTS["recount"], chosen)
            requeued = [JobId(row["id"]) for row in rows]
            await _add_entry(connection, by, AuditAction.DEAD_LETTERS_REQUEUED, requeued)
        return requeued


async def _add_entry(connection: "Connection", by: Actor, action: AuditAction, jobs: Sequence[JobId]) -> None:
    shown = [encode_job_id(job) for job in jobs[:_RECORDED_JOBS]]
    await add_entry(connection, by, action, "dead_letters", {"count": len(jobs), "jobs": shown})


def _letter(row: Any) -> DeadLetter:
    return DeadLetter(
        job=JobId(row["job_id"]),
        user=UserId(row["user_id"]),
        kind=row["kind"],
        name=row["name"],
        state=JobState(row["state"]),
        job_class=JobClass(row["class"]),
        stage=row["stage"],
        attempt=row["attempt"],
        reason=row["reason"],
        failure=Failure.model_validate(row["failure"]),
        died_at=row["died_at"],
    )
