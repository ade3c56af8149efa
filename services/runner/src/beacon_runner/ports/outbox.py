"""Messages on their way from Postgres to Redis."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from beacon_runner.domain.queue.messages import OutboxEntry


@dataclass(frozen=True, slots=True)
class OutboxLag:
    """How many messages wait to be published, and for how long the oldest has waited."""

    entries: int
    oldest_s: float


class Outbox(Protocol):
    def take(self, limit: int) -> AbstractAsyncContextManager[Sequence[OutboxEntry]]:
        """Up to `limit` entries, deleted when the block succeeds and kept when it raises."""
        ...

    async def delete(self, rows: Sequence[int]) -> None:
        """Delete published rows by id; rows that are gone are ignored."""
        ...

    async def lag(self) -> OutboxLag: ...
