"""Time as a dependency: the real clock in production, one that tests move by hand."""

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        ...

    def wall(self) -> datetime:
        """The time of day in UTC, for people and records."""
        ...

    def unix(self) -> float:
        """The time of day in seconds since 1970. Costs a sixth of `wall`: for code that each job runs."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    now = staticmethod(time.monotonic)
    unix = staticmethod(time.time)
    sleep = staticmethod(asyncio.sleep)

    def wall(self) -> datetime:
        return datetime.now(UTC)


class ManualClock:
    """A clock that moves only by `advance`, waking sleepers in due order."""

    def __init__(self, start: datetime | None = None) -> None:
        self._epoch = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._now = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def wall(self) -> datetime:
        return self._epoch + timedelta(seconds=self._now)

    def unix(self) -> float:
        return self.wall().timestamp()

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Move on by `seconds`, stopping at each sleeper's moment so that it sees its own due time."""
        if seconds < 0:
            raise ValueError(f"a clock never goes back ({seconds} s)")
        target = self._now + seconds
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, woken = heapq.heappop(self._sleepers)
            self._now = max(self._now, due)
            if not woken.done():
                woken.set_result(None)
            await _let_others_run()
        self._now = target
        await _let_others_run()


async def _let_others_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
