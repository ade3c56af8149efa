"""Removal of what is past its retention."""

from collections.abc import Sequence
from typing import Protocol

from beacon_runner.domain.jobs.retention import Removal, RetentionCandidate


class RetentionStore(Protocol):
    async def find(self, removal: Removal, age_s: float, limit: int) -> Sequence[RetentionCandidate]:
        """The oldest jobs that may have something to remove after that age."""
        ...

    async def remove(self, removal: Removal, jobs: Sequence[RetentionCandidate]) -> int:
        """Remove it from the jobs that have not changed since they were found; returns the removed rows."""
        ...
