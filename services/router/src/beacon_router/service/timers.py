"""Callbacks at given times on the injected clock: one heap and one task for all of them."""

import asyncio
import heapq
import itertools
from collections.abc import Callable

from beacon_lifecycle import Clock

# The heap is rebuilt when most of it is cancelled timers, so that its size follows the live ones.
MIN_CANCELLED_TO_COMPACT = 1_024


class Timer:
    __slots__ = ("_owner", "callback")

    def __init__(self, owner: "Timers", callback: Callable[[], None]) -> None:
        self._owner = owner
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Idempotent; no effect after the timer has fired."""
        if self.callback is not None:
            self.callback = None
            self._owner.note_cancelled()


class Timers:
    """Adding and cancelling need no task and no event loop timer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Timer]] = []
        self._sequence = itertools.count()
        self._cancelled = 0
        self._sleeping_until = float("inf")
        self._earlier = asyncio.Event()

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return self.at(self._clock.now() + seconds, callback)

    def at(self, moment: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self, callback)
        heapq.heappush(self._heap, (moment, next(self._sequence), timer))
        if moment < self._sleeping_until:
            self._earlier.set()
        return timer

    def note_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > MIN_CANCELLED_TO_COMPACT and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    async def run(self) -> None:
        """Fire the timers until cancelled."""
        while True:
            self._fire_due()
            self._earlier.clear()
            if self._heap:
                self._sleeping_until = self._heap[0][0]
                await self._sleep_or_earlier(self._sleeping_until - self._clock.now())
            else:
                self._sleeping_until = float("inf")
                await self._earlier.wait()

    def _fire_due(self) -> None:
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            _, _, timer = heapq.heappop(self._heap)
            callback, timer.callback = timer.callback, None
            if callback is None:
                self._cancelled -= 1
            else:
                callback()

    async def _sleep_or_earlier(self, seconds: float) -> None:
        sleeper = asyncio.ensure_future(self._clock.sleep(seconds))
        waker = asyncio.ensure_future(self._earlier.wait())
        try:
            await asyncio.wait({sleeper, waker}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
            waker.cancel()
            await asyncio.gather(sleeper, waker, return_exceptions=True)
