"""Publishes the outbox rows of this process's own commits immediately, without a round trip to the relay."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from beacon_lifecycle import TaskSet
from beacon_runner.domain.errors import QueueUnavailableError, StoreUnavailableError
from beacon_runner.domain.messages import OutboxEntry
from beacon_runner.maintenance.publisher import OutboxPublisher

log = structlog.get_logger(__name__)

MAX_PENDING = 10_000  # beyond it, rows are left to the relay


class InlinePublisher:
    """`publish` returns immediately; entries that arrive during a push share the next one, in their order.

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
