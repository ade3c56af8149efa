"""Wakes the publisher after a commit: directly in the same process, through Redis in another. Best effort."""

import asyncio

import structlog
from redis.asyncio import Redis, RedisCluster

from beacon_lifecycle import TaskSet, WakeEvent
from beacon_redis import REDIS_ERRORS
from beacon_runner.redis_queue.keys import OUTBOX_CHANNEL

log = structlog.get_logger(__name__)


class OutboxNotifier:
    """`notify` returns immediately; calls during a publication share the next one."""

    name = "outbox-notifier"

    def __init__(self, redis: Redis | RedisCluster) -> None:
        self._redis = redis
        self._notified = asyncio.Event()
        self._local: list[WakeEvent] = []
        self._tasks = TaskSet(self.name)
        self._stopping = False

    def add_local(self, wakeup: WakeEvent) -> None:
        """The wake event of a publisher in this process; then Redis is not used."""
        self._local.append(wakeup)

    def notify(self) -> None:
        if self._local:
            for wakeup in self._local:
                wakeup.set()
        else:
            self._notified.set()

    async def start(self) -> None:
        self._tasks.spawn("publish", self._publish())

    async def wait(self) -> None:
        await self._tasks.failed.wait()
        raise RuntimeError("the outbox notifier ended") from self._tasks.failure

    async def stop(self) -> None:
        self._stopping = True  # the client can mistake a cancellation for a timeout and continue
        await self._tasks.close()

    async def _publish(self) -> None:
        while not self._stopping:
            await self._notified.wait()
            self._notified.clear()
            try:
                await self._redis.publish(OUTBOX_CHANNEL, "")
            except REDIS_ERRORS as error:
                log.debug("outbox_notify_failed", error=str(error))
