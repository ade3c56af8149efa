"""Removes jobs, events and idempotency keys that are past their retention."""

from collections.abc import Sequence

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from beacon_runner.domain.jobs.retention import Removal, RetentionCandidate
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

_SQL = statements("retention")


class PostgresRetention:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, removal: Removal, age_s: float, limit: int) -> Sequence[RetentionCandidate]:
        rows = await self._database.fetch(_SQL[f"find_{removal}"], age_s, limit)
        return [
            RetentionCandidate(
                JobId(row["id"]),
                JobState(row["state"]),
                row["generation"],
                row["submitted_s"],
                row["ended_s"],
            )
            for row in rows
        ]

    async def remove(self, removal: Removal, jobs: Sequence[RetentionCandidate]) -> int:
        ids, generations = [job.id for job in jobs], [job.generation for job in jobs]
        if removal is Removal.JOBS:
            return int(await self._database.fetchval(_SQL["remove_jobs"], ids, generations))
        done = await self._database.execute(_SQL[f"remove_{removal}"], ids, generations)
        return int(done.split()[-1])
