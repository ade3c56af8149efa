"""Wakes the publisher after a commit: at once in the same process, over Redis in another. Best effort."""

import asyncio

import structlog
from redis.asyncio import Redis, RedisCluster

from beacon_lifecycle import TaskSet, WakeEvent
from beacon_redis import REDIS_ERRORS
from beacon_runner.redis_queue.keys import OUTBOX_CHANNEL

log = structlog.get_logger(__name__)


class OutboxNotifier:
    """`ring` returns at once; rings that come while one is on its way share the next."""

    name = "outbox-bell"

    def __init__(self, redis: Redis | RedisCluster) -> None:
        self._redis = redis
        self._rung = asyncio.Event()
        self._here: list[WakeEvent] = []
        self._tasks = TaskSet(self.name)
        self._stopping = False

    def also_wake(self, wakeup: WakeEvent) -> None:
        """A publisher of this process: with one here, others need not be told."""
        self._here.append(wakeup)

    def ring(self) -> None:
        if self._here:
            for wakeup in self._here:
                wakeup.set()
        else:
            self._rung.set()

    async def start(self) -> None:
        self._tasks.spawn("publish", self._publish())

    async def wait(self) -> None:
        await self._tasks.failed.wait()
        raise RuntimeError("the outbox bell ended") from self._tasks.failure

    async def stop(self) -> None:
        self._stopping = True  # the client may take a cancellation for a timeout, and go on
        await self._tasks.close()

    async def _publish(self) -> None:
        while not self._stopping:
            await self._rung.wait()
            self._rung.clear()
            try:
                await self._redis.publish(OUTBOX_CHANNEL, "")
            except REDIS_ERRORS as error:
                log.debug("bell_not_heard", error=str(error))
