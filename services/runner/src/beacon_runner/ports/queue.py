"""The message queue between the outbox and the workers."""

from collections.abc import Collection, Sequence
from typing import Protocol

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.queue.messages import Message, OutboxEntry
from beacon_runner.ports.reconcile import LiveMessage


class MessageQueue(Protocol):
    async def push(self, entries: Sequence[OutboxEntry]) -> int:
        """Add messages by topic in one round trip; messages that Redis holds already change nothing."""
        ...

    async def claim(
        self, classes: Sequence[JobClass], limit: int, worker: str, skipped_lanes: Collection[str] = ()
    ) -> Sequence[Message]:
        """Lease up to `limit`: front first, then the lanes round-robin, class by class in the order given."""
        ...

    async def ack(self, messages: Sequence[Message]) -> int:
        """Remove messages that are done, wherever they are, and notify the watchers of their jobs."""
        ...

    async def notify_watchers(self, jobs: Sequence[JobId]) -> None:
        """Notify the watchers of these jobs."""
        ...

    async def nack(self, messages: Sequence[Message], worker: str) -> int:
        """Return messages that this worker has leased to the front of their lane."""
        ...

    async def reclaim(self, limit: int) -> Sequence[Message]:
        """Return messages whose lease has expired to the front of their lane."""
        ...

    async def promote_due_retries(self, limit: int) -> int:
        """Move due retries to their lane."""
        ...

    async def find_inconsistent(self, live: Sequence[LiveMessage]) -> Sequence[Message]:
        """Messages that Redis does not hold, holds in a lower class, or not in front although paid for."""
        ...

    async def repair(self) -> int:
        """Restore messages that no claim would find because no list holds them; how many."""
        ...

    async def identity(self) -> str:
        """Names the run of the server: another name means that it restarted or was replaced."""
        ...

    async def epoch(self) -> str | None:
        """Set while the queue holds everything that is live; None after Redis was emptied."""
        ...

    async def begin_epoch(self, epoch: str) -> bool:
        """Declare that everything live is in the queue; false when another process did so first."""
        ...
