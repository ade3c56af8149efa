"""Promotion of jobs that have waited long."""

from typing import Protocol

from beacon_contracts.tiers import JobClass


class PromotionStore(Protocol):
    async def promote(self, source: JobClass, target: JobClass, waited_s: float, limit: int) -> int:
        """Raise up to `limit` queued jobs of `source` that have waited longer, oldest first; how many.

        One transaction: the class, JOB_PROMOTED, and an outbox row with the same generation and new class.
        Pushing that row moves the existing message; there is never a second one.
        """
        ...
