"""The thin ticker around a `run_once`: all decisions live in `run_once`, which is what tests call."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

import structlog

from beacon_lifecycle.clock import Clock

log = structlog.get_logger(__name__)


class Counted(Protocol):
    """What a `run_once` returns: how much it did, and whether more is waiting already."""

    @property
    def more(self) -> bool: ...


class Wakeup:
    """Lets one part tell a loop that there is work, without waiting for its next tick."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, timeout_s: float, clock: Clock) -> None:
        """Return at the next `set` or after the timeout, whichever is first."""
        if not self._event.is_set():
            sleeper = asyncio.ensure_future(clock.sleep(timeout_s))
            waker = asyncio.ensure_future(self._event.wait())
            try:
                await asyncio.wait({sleeper, waker}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for waiter in (sleeper, waker):
                    waiter.cancel()
                await asyncio.gather(sleeper, waker, return_exceptions=True)
        self._event.clear()


class Loop:
    """A service that calls `run_once` each interval, at once when woken, and again while there is more.

    An error is logged and the next call waits: longer after each failure in a row, up to `max_backoff_s`.
    """

    def __init__(
        self,
        name: str,
        run_once: Callable[[], Awaitable[Counted]],
        *,
        interval_s: float,
        clock: Clock,
        wakeup: Wakeup | None = None,
        max_backoff_s: float = 30.0,
    ) -> None:
        if interval_s <= 0:
            raise ValueError(f"loop {name}: interval_s must be above zero, got {interval_s}")
        self.name = name
        self.wakeup = wakeup or Wakeup()
        self._run_once = run_once
        self._interval_s = interval_s
        self._max_backoff_s = max_backoff_s
        self._clock = clock
        self._failures = 0
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"loop:{self.name}")

    async def wait(self) -> None:
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Let a `run_once` that is under way finish, then end."""
        self._stopping.set()
        self.wakeup.set()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            more, pause_s = await self._tick()
            if not more and not self._stopping.is_set():
                await self.wakeup.wait(pause_s, self._clock)

    async def _tick(self) -> tuple[bool, float]:
        try:
            result = await self._run_once()
        except Exception:
            self._failures += 1
            pause_s = min(self._interval_s * 2**self._failures, self._max_backoff_s)
            log.exception("loop_failed", loop=self.name, failures=self._failures, next_try_s=pause_s)
            return False, pause_s
        self._failures = 0
        return result.more, self._interval_s
