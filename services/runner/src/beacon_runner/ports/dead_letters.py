"""Dead letters."""

from collections.abc import Sequence
from typing import Protocol

from beacon_contracts.ids import JobId
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.jobs.dead_letters import DeadLetter, DeadLetterCursor


class DeadLetterStore(Protocol):
    async def page(self, after: DeadLetterCursor | None, limit: int) -> Sequence[DeadLetter]:
        """Newest first."""
        ...

    async def count(self) -> int: ...

    async def purge(self, jobs: Sequence[JobId] | None, *, by: Actor = ...) -> Sequence[JobId]:
        """Remove these dead letters, or all; returns the removed ones."""
        ...

    async def requeue(self, jobs: Sequence[JobId] | None, *, by: Actor = ...) -> Sequence[JobId]:
        """Queue these jobs again, or all that are dead now, with their attempts reset."""
        ...
