"""Sums of the use of GPUs, and the records that they are made of."""

from collections.abc import Sequence
from operator import attrgetter

from beacon_contracts.ids import UserId
from beacon_runner.domain.accounts.usage import InteractiveUsage, RolledUp, UsageQuery, UsageSum, UsageToday
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

_SQL = statements("usage")
_COLUMNS = attrgetter(*InteractiveUsage.__slots__)


class PostgresUsage:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def sums(self, query: UsageQuery, limit: int) -> list[UsageSum]:
        values = query.user, query.start, query.end, list(query.groups), limit
        return [UsageSum(*row) for row in await self._database.fetch(_SQL["sums"], *values)]

    async def today(self, user: UserId) -> UsageToday:
        (row,) = await self._database.fetch(_SQL["today"], user)
        return UsageToday(*row)

    async def roll_up(self, limit: int) -> list[RolledUp]:
        return [RolledUp(*row) for row in await self._database.fetch(_SQL["roll_up"], limit)]

    async def add_interactive(self, runs: Sequence[InteractiveUsage]) -> None:
        columns = map(list, zip(*map(_COLUMNS, runs), strict=True))
        await self._database.execute(_SQL["add_interactive"], *columns)
