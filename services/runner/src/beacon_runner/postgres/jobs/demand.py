"""Counts the executions of live jobs that no router has."""

from collections.abc import Mapping

from beacon_runner.domain.queue.demand import GpuTarget
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

_SQL = statements("demand")


class PostgresDemand:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def unsent(self) -> Mapping[GpuTarget, int]:
        rows = await self._database.fetch(_SQL["unsent"])
        return {GpuTarget(row["model"], row["region"]): row["executions"] for row in rows}
