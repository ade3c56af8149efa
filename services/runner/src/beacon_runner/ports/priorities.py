"""The class of a user's jobs."""

from typing import Protocol

from beacon_contracts.ids import UserId
from beacon_contracts.tiers import JobClass


class Priorities(Protocol):
    async def class_of(self, user: UserId, tier_class: JobClass) -> JobClass:
        """`tier_class` is the default by the user's tier."""
        ...

    async def close(self) -> None: ...
