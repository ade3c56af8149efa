"""Publishes outbox rows to Redis: at least once; the queue ignores messages that it holds already."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from beacon_lifecycle import RunResult, TaskSet
from beacon_runner.domain.errors import QueueUnavailableError, StoreUnavailableError
from beacon_runner.domain.queue.messages import OutboxEntry
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.outbox import Outbox
from beacon_runner.ports.queue import MessageQueue

log = structlog.get_logger(__name__)

MAX_PENDING = 10_000  # rows of this process's commits; beyond it they are left to the relay


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


class InlinePublisher:
    """Publishes the rows of this process's own commits at once, without a round trip to the relay.

    `publish` returns immediately; entries that arrive during a push share the next one, in their order.

    Best effort: rows that were not pushed, or pushed and not deleted, are published by the relay.
    """

    name = "inline-publisher"

    def __init__(self, publisher: OutboxPublisher, notify_relay: Callable[[], None]) -> None:
        self._publisher = publisher
        self._notify_relay = notify_relay
        self._pending: list[OutboxEntry] = []
        self._added = asyncio.Event()
        self._tasks = TaskSet(self.name)
        self._stopping = False

    def publish(self, entries: Sequence[OutboxEntry]) -> None:
        if len(self._pending) < MAX_PENDING:
            self._pending += entries
        self._added.set()

    async def start(self) -> None:
        self._tasks.spawn("publish", self._publish_until_stopped())

    async def wait(self) -> None:
        await self._tasks.failed.wait()
        raise RuntimeError("the inline publisher ended") from self._tasks.failure

    async def stop(self) -> None:
        self._stopping = True  # redis-py may swallow a cancellation
        await self._tasks.close()

    async def _publish_until_stopped(self) -> None:
        while not self._stopping:
            await self._added.wait()
            self._added.clear()
            entries, self._pending = self._pending, []
            try:
                await self._publisher.publish(entries)
                await self._publisher.outbox.delete([entry.row for entry in entries])
            except (QueueUnavailableError, StoreUnavailableError) as error:
                log.info("inline_publish_failed", entries=len(entries), error=str(error))
                self._notify_relay()
