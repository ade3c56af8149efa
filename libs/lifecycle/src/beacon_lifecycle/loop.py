"""A loop calls `run_once` at intervals. All decisions are in `run_once`, which tests call directly."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import structlog

from beacon_lifecycle.clock import Clock

log = structlog.get_logger(__name__)

# Beyond this the longest backoff is reached anyway, and the power would outgrow a float one day.
_MAX_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one `run_once`: how many items it processed, and whether more are waiting."""

    count: int
    more: bool = False

    @classmethod
    def limited(cls, count: int, limit: int) -> "RunResult":
        """The result of a run with a limit: it processed `limit` items, so there may be more."""
        return cls(count, more=count >= limit)


class WakeEvent:
    """Wakes a loop before its next tick.

    For use inside one event loop: from another thread, go through `call_soon_threadsafe`.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, timeout_s: float, clock: Clock) -> None:
        """Return at the next `set` or after the timeout, whichever is first."""
        if not self._event.is_set():
            sleeper = asyncio.ensure_future(clock.sleep(timeout_s))
            sleeper.add_done_callback(self._slept)
            try:
                await self._event.wait()
            finally:
                sleeper.cancel()
        self._event.clear()

    def _slept(self, sleeper: "asyncio.Future[None]") -> None:
        if not sleeper.cancelled():
            self._event.set()


class Loop:
    """A service that calls `run_once` each interval, at once when woken, and again while there is more.

    An error is logged and the next call waits, woken or not: longer after each failure in a row, up to
    `max_backoff_s`.
    """

    def __init__(
        self,
        name: str,
        run_once: Callable[[], Awaitable[RunResult]],
        *,
        interval_s: float,
        clock: Clock,
        wakeup: WakeEvent | None = None,
        max_backoff_s: float = 30.0,
    ) -> None:
        if interval_s <= 0:
            raise ValueError(f"loop {name}: interval_s must be above zero, got {interval_s}")
        self.name = name
        self.wakeup = wakeup or WakeEvent()
        self._run_once = run_once
        self._interval_s = interval_s
        self._max_backoff_s = max_backoff_s
        self._clock = clock
        self._failures = 0
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._task is not None:
            raise RuntimeError(f"loop {self.name} was started before")
        self._task = asyncio.create_task(self._run(), name=f"loop:{self.name}")

    async def wait(self) -> None:
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Let a `run_once` that is under way finish, then end; when cancelled, end it by force."""
        self._stopping.set()
        self.wakeup.set()
        if self._task is None:
            return
        try:
            await asyncio.wait({self._task})
        except asyncio.CancelledError:
            self._task.cancel()
            raise

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                result = await self._run_once()
            except Exception:
                self._failures += 1
                pause_s = self._backoff_s()
                log.exception("loop_failed", loop=self.name, failures=self._failures, next_try_s=pause_s)
                await _first(self._clock.sleep(pause_s), self._stopping.wait())
                continue
            self._failures = 0
            if result.more:
                # A `run_once` that never has to wait must not block the other tasks.
                await asyncio.sleep(0)
            elif not self._stopping.is_set():
                await self.wakeup.wait(self._interval_s, self._clock)

    def _backoff_s(self) -> float:
        doublings = min(self._failures, _MAX_DOUBLINGS)
        return min(self._interval_s * 2.0**doublings, self._max_backoff_s)


async def _first(*waits: Awaitable[Any]) -> None:
    """Return when one is done; the others are cancelled and gone by then."""
    waiters = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
