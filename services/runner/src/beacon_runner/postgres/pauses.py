"""The paused classes. Postgres is the source of record; Redis holds a copy."""

from beacon_contracts.tiers import JobClass
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

_SQL = statements("pauses")


class PostgresPauses:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def paused(self) -> frozenset[JobClass]:
        return frozenset(JobClass(row["class"]) for row in await self._database.fetch(_SQL["paused"]))

    async def pause(self, job_class: JobClass) -> None:
        await self._database.execute(_SQL["pause"], job_class)

    async def resume(self, job_class: JobClass) -> None:
        await self._database.execute(_SQL["resume"], job_class)
