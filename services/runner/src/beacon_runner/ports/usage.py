"""Sums of the use of GPUs."""

from collections.abc import Sequence
from typing import Protocol

from beacon_contracts.ids import UserId
from beacon_runner.domain.accounts.usage import InteractiveUsage, RolledUp, UsageQuery, UsageSum, UsageToday


class UsageStore(Protocol):
    async def sums(self, query: UsageQuery, limit: int) -> Sequence[UsageSum]:
        """Grouped and ordered as the query says; exact, whether rolled up or not."""
        ...

    async def today(self, user: UserId) -> UsageToday:
        """The GPU seconds of the user since midnight, UTC."""
        ...

    async def add_interactive(self, runs: Sequence[InteractiveUsage]) -> None:
        """Record runs of `/v1`, all or none."""
        ...


class UsageRollUp(Protocol):
    async def roll_up(self, limit: int) -> Sequence[RolledUp]:
        """Add up to `limit` records to the hourly sums and delete them."""
        ...
