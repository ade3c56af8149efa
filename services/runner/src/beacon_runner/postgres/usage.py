"""Sums of the use of GPUs, and the records that they are made of."""

from collections.abc import Sequence
from dataclasses import astuple

from beacon_runner.domain.usage import InteractiveUsage, RolledUp, UsageQuery, UsageSum
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.group_commit import GroupCommit
from beacon_runner.postgres.statements import statements

_SQL = statements("usage")


class PostgresUsage:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._runs: GroupCommit[InteractiveUsage, None] = GroupCommit("interactive-usage", self._add)

    async def sums(self, query: UsageQuery, limit: int) -> list[UsageSum]:
        values = query.user, query.start, query.end, list(query.groups), limit
        return [UsageSum(*row) for row in await self._database.fetch(_SQL["sums"], *values)]

    async def roll_up(self, limit: int) -> list[RolledUp]:
        return [RolledUp(*row) for row in await self._database.fetch(_SQL["roll_up"], limit)]

    async def add_interactive(self, usage: InteractiveUsage) -> None:
        await self._runs.submit([usage])

    async def close(self) -> None:
        """Write what was accepted."""
        await self._runs.close()

    async def _add(self, runs: Sequence[InteractiveUsage]) -> Sequence[None]:
        columns = map(list, zip(*(astuple(run) for run in runs), strict=True))
        await self._database.execute(_SQL["add_interactive"], *columns)
        return [None] * len(runs)
