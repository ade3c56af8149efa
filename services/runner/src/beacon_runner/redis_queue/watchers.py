"""Wakes the open event streams of a job when the job has changed: one subscription, a channel per job."""

from collections.abc import Iterator
from contextlib import contextmanager

from beacon_contracts.ids import JobId
from beacon_lifecycle import Clock, WakeEvent
from beacon_redis import RedisAddress, Subscriber
from beacon_runner.redis_queue.keys import watch_channel


class Watchers:
    """A wake-up carries no data. A stream whose wake-up is lost polls a little later."""

    name = "watchers"

    def __init__(self, address: RedisAddress, clock: Clock) -> None:
        self.closed = False
        self._watching: dict[str, set[WakeEvent]] = {}
        self._subscriber = Subscriber(self.name, address, clock)

    def __len__(self) -> int:
        return sum(map(len, self._watching.values()))

    @contextmanager
    def watch(self, job: JobId) -> Iterator[WakeEvent]:
        channel, wakeup = watch_channel(job), WakeEvent()
        watchers = self._watching.get(channel)
        if watchers is None:
            watchers = self._watching[channel] = set()
            self._subscriber.add(channel, lambda _: self._wake(channel))
        watchers.add(wakeup)
        try:
            yield wakeup
        finally:
            watchers.discard(wakeup)
            if not watchers:
                del self._watching[channel]
                self._subscriber.remove(channel)

    async def start(self) -> None:
        await self._subscriber.start()

    async def wait(self) -> None:
        await self._subscriber.wait()

    async def stop(self) -> None:
        """End every stream of this process; clients reconnect to another process and continue."""
        self.closed = True
        for channel in self._watching:
            self._wake(channel)
        await self._subscriber.stop()

    def _wake(self, channel: str) -> None:
        for wakeup in self._watching.get(channel, ()):
            wakeup.set()
