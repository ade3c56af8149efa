"""Hears what is published in Redis and wakes the loops of this process."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

import structlog
from redis.asyncio import Redis

from beacon_lifecycle import Clock, TaskSet
from beacon_redis import REDIS_ERRORS, Ear, QuickRedis

log = structlog.get_logger(__name__)

CHECK_EVERY_S = 5.0
RECONNECT_AFTER_S = 0.5
LAST_WORDS_S = 1.0


class WakeListener:
    """One subscription a process. Nothing depends on it: loops also look by themselves, only later."""

    def __init__(
        self, name: str, redis: Redis, channels: Mapping[str, Callable[[str], None]], clock: Clock
    ) -> None:
        self.name = name
        self._redis = redis
        self._channels = channels
        self._clock = clock
        self._tasks = TaskSet(name)
        self._stopping = False
        self._ear: Ear | None = None

    async def start(self) -> None:
        self._tasks.spawn("listen", self._listen())

    async def wait(self) -> None:
        await self._tasks.failed.wait()
        raise RuntimeError(f"{self.name} ended") from self._tasks.failure

    async def stop(self) -> None:
        """What was published before is heard, if Redis still says so in time."""
        self._stopping = True  # the client may take a cancellation for a timeout, and go on
        if self._ear is not None:
            with suppress(TimeoutError, *REDIS_ERRORS):
                async with asyncio.timeout(LAST_WORDS_S):
                    await self._ear.stop_listening()
        await self._tasks.close()
        await self._redis.aclose()

    async def _listen(self) -> None:
        while not self._stopping:
            try:
                await self._hear()
            except REDIS_ERRORS as error:
                log.info("listener_reconnects", listener=self.name, error=str(error))
                await self._clock.sleep(RECONNECT_AFTER_S)

    async def _hear(self) -> None:
        if isinstance(self._redis, QuickRedis) and self._redis.is_plain:
            await self._hear_quickly(self._redis)
        else:
            await self._hear_by_package()

    async def _hear_quickly(self, redis: QuickRedis) -> None:
        self._ear = ear = await redis.open_ear(self._channels)
        try:
            self._wake_all()
            while not await ear.broken(CHECK_EVERY_S):
                await ear.call("PING")
            raise ConnectionError("the connection to Redis has ended")
        finally:
            ear.close()

    def _wake_all(self) -> None:
        for wake in self._channels.values():
            wake("")  # what was published while nobody listened

    async def _hear_by_package(self) -> None:
        async with self._redis.pubsub(ignore_subscribe_messages=True) as subscription:
            await subscription.subscribe(*self._channels)
            self._wake_all()
            while not self._stopping:
                heard = await subscription.get_message(timeout=CHECK_EVERY_S)
                if heard is None:
                    await subscription.ping()
                elif heard["type"] == "message":
                    self._channels[heard["channel"]](heard["data"])
