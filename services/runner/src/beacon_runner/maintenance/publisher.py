"""Publishes outbox rows to Redis: at least once; the queue ignores messages that it holds already."""

from collections.abc import Sequence
from dataclasses import dataclass

from beacon_lifecycle import RunResult
from beacon_runner.domain.messages import OutboxEntry
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.outbox import Outbox
from beacon_runner.ports.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class OutboxPublisher:
    """Rows are deleted after the push: after a crash in between they are pushed again."""

    outbox: Outbox
    queue: MessageQueue
    metrics: LoopMetrics
    batch: int = 500

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1, got {self.batch}")

    async def run_once(self) -> RunResult:
        """Publish the oldest rows that no other publisher holds."""
        async with self.outbox.take(self.batch) as entries:
            if entries:
                await self.publish(entries)
        return RunResult.limited(len(entries), self.batch)

    async def publish(self, entries: Sequence[OutboxEntry]) -> None:
        await self.queue.push(entries)
        self.metrics.published.inc(len(entries))
