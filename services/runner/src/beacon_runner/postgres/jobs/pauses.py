"""The paused classes. Postgres is the source of record; Redis holds a copy."""

from beacon_contracts.audit import AuditAction
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.accounts.audit import SYSTEM, Actor
from beacon_runner.postgres.accounts.audit import add_entry
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

_SQL = statements("pauses")


class PostgresPauses:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def paused(self) -> frozenset[JobClass]:
        return frozenset(JobClass(row["class"]) for row in await self._database.fetch(_SQL["paused"]))

    async def pause(self, job_class: JobClass, *, by: Actor = SYSTEM) -> None:
        await self._change("pause", job_class, by, AuditAction.QUEUE_PAUSED)

    async def resume(self, job_class: JobClass, *, by: Actor = SYSTEM) -> None:
        await self._change("resume", job_class, by, AuditAction.QUEUE_RESUMED)

    async def _change(self, statement: str, job_class: JobClass, by: Actor, action: AuditAction) -> None:
        async with self._database.transaction() as connection:
            await connection.execute(_SQL[statement], job_class)
            await add_entry(connection, by, action, job_class, {})
