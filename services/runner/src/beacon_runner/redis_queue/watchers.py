"""Wakes those who watch a job when something happened to it: one subscription, a channel a job."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from beacon_contracts.ids import JobId
from beacon_lifecycle import Clock, TaskSet, WakeEvent
from beacon_redis import REDIS_ERRORS
from beacon_runner.redis_queue.keys import watch_channel

log = structlog.get_logger(__name__)

CHECK_EVERY_S = 5.0
RECONNECT_AFTER_S = 0.5
_KEPT_OPEN = "ws:"  # a subscription to nothing would be closed


class Watchers:
    """A wake-up says only «look again»: one that is lost delays a watcher until it looks by itself."""

    name = "watchers"

    def __init__(self, redis: Redis, clock: Clock) -> None:
        self.closed = False
        self._redis = redis
        self._clock = clock
        self._watching: dict[str, set[WakeEvent]] = {}
        self._changed = asyncio.Event()
        self._tasks = TaskSet(self.name)

    def __len__(self) -> int:
        return sum(map(len, self._watching.values()))

    @contextmanager
    def watch(self, job: JobId) -> Iterator[WakeEvent]:
        channel, wakeup = watch_channel(job), WakeEvent()
        self._watching.setdefault(channel, set()).add(wakeup)
        self._changed.set()
        try:
            yield wakeup
        finally:
            watchers = self._watching[channel]
            watchers.discard(wakeup)
            if not watchers:
                del self._watching[channel]
                self._changed.set()

    async def start(self) -> None:
        self._tasks.spawn("listen", self._listen())

    async def wait(self) -> None:
        await self._tasks.failed.wait()
        raise RuntimeError("the watchers' listener ended") from self._tasks.failure

    async def stop(self) -> None:
        """Tell every watcher that it is over here; they come back elsewhere, from where they were."""
        self.closed = True
        self._wake_all()
        await self._tasks.close()
        await self._redis.aclose()

    async def _listen(self) -> None:
        while not self.closed:
            try:
                await self._hear()
            except* REDIS_ERRORS as errors:
                log.info("watchers_reconnect", error=str(errors.exceptions[0]))
            self._wake_all()
            await self._clock.sleep(RECONNECT_AFTER_S)

    async def _hear(self) -> None:
        async with self._redis.pubsub() as subscription, asyncio.TaskGroup() as both:
            await subscription.subscribe(_KEPT_OPEN)
            if self.closed:
                return  # the client swallows a cancellation that comes while it connects
            self._changed.set()
            both.create_task(self._follow(subscription))
            both.create_task(self._read(subscription))

    async def _follow(self, subscription: PubSub) -> None:
        """Keep the subscription to what is watched."""
        subscribed: set[str] = set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            wanted = set(self._watching)
            if new := wanted - subscribed:
                await subscription.subscribe(*new)
            if gone := subscribed - wanted:
                await subscription.unsubscribe(*gone)
            subscribed = wanted

    async def _read(self, subscription: PubSub) -> None:
        while True:
            heard = await subscription.get_message(timeout=CHECK_EVERY_S)
            if heard is None:
                await subscription.ping()
            elif heard["type"] in ("message", "subscribe"):
                # Subscribed just now: what happened between the first look and this moment is seen too.
                for wakeup in self._watching.get(heard["channel"], ()):
                    wakeup.set()

    def _wake_all(self) -> None:
        for watchers in self._watching.values():
            for wakeup in watchers:
                wakeup.set()
