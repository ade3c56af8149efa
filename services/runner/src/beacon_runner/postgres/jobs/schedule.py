"""Starts scheduled jobs, ends expired ones, and admits jobs that wait for a limit of their user."""

from collections.abc import Sequence

from beacon_contracts.events import EventType
from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import JobState
from beacon_runner.domain.execution.stage_result import EventDraft
from beacon_runner.domain.limits.job_quota import Allowance, admissible
from beacon_runner.domain.queue.messages import Message
from beacon_runner.ports.schedule import WaitingUser
from beacon_runner.postgres.accounts.user_jobs import end_jobs
from beacon_runner.postgres.database import Database, retried
from beacon_runner.postgres.jobs.report_params import encode_events
from beacon_runner.postgres.jobs.submissions import lock_and_count
from beacon_runner.postgres.statements import statements

_SQL = statements("schedule")
MAX_PURGED = 1_000


class PostgresSchedule:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def start_due(self, limit: int) -> int:
        """Queue jobs whose time has come; how many were due."""
        events = encode_events([EventDraft(EventType.JOB_QUEUED, {"reason": "due"})])
        return int(await retried(self._database.fetchval, _SQL["start_due"], limit, events))

    async def expire(self, limit: int) -> Sequence[Message]:
        """End live jobs whose time has come; their messages, which Redis may still have."""

        async def transaction() -> list[Message]:
            async with self._database.transaction() as connection:
                rows = await connection.fetch(_SQL["expired"], limit)
                due = [JobId(row["id"]) for row in rows]
                return await end_jobs(connection, due, JobState.EXPIRED, EventDraft(EventType.JOB_EXPIRED))

        return await retried(transaction)

    async def waiting_users(self, after: UserId | None, limit: int) -> Sequence[WaitingUser]:
        rows = await self._database.fetch(_SQL["waiting_users"], after, limit)
        return [WaitingUser(row["user_id"], row["tier"], row["disabled"]) for row in rows]

    async def admit(self, user: UserId, allowance: Allowance | None, limit: int) -> int:
        """Start as many of the user's waiting jobs as the limits allow, oldest first; how many."""

        async def transaction() -> int:
            async with self._database.transaction() as connection:
                use = await lock_and_count(connection, user, allowance)
                rows = await connection.fetch(_SQL["waiting_jobs"], user, limit)
                waiting = [row for row in rows if row["waits"]]
                ended = [row["job_id"] for row in rows if not row["waits"]]
                if ended:
                    await connection.execute(_SQL["forget_waits"], user, ended)
                count = admissible(allowance, use, [row["total"] for row in waiting])
                chosen = [row["job_id"] for row in waiting[:count]]
                events = encode_events([EventDraft(EventType.JOB_QUEUED, {"reason": "admitted"})])
                return len(await connection.fetch(_SQL["admit_waiting"], user, chosen, events))

        return await retried(transaction)

    async def forget_admitted(self) -> None:
        """Remove admissions that no longer count for a limit."""
        await self._database.execute(_SQL["forget_admitted"], MAX_PURGED)
