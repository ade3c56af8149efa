"""Callers that wait for an inference: each is called back once, in the order they came."""

import asyncio
from collections.abc import Callable

import structlog

from beacon_router.service.inference import Inference
from beacon_router.service.timers import Timer, Timers

log = structlog.get_logger(__name__)


class Wait:
    """Calls `told` once: when the inference is over or the seconds have passed. Not after `forget`."""

    __slots__ = ("_inference", "_timer", "_told")

    def __init__(
        self, inference: Inference, seconds: float | None, timers: Timers, told: Callable[[], None]
    ) -> None:
        self._inference = inference
        self._told: Callable[[], None] | None = told
        self._timer: Timer | None = None
        inference.waiters[self.wake] = None
        if seconds is not None:
            self._timer = timers.after(seconds, self._expire)

    def wake(self) -> None:
        told, self._told = self._told, None
        if self._timer is not None:
            self._timer.cancel()
        if told is None:
            return
        try:
            told()
        except Exception:
            # Whoever waits must not disturb the engine, which is in the middle of its work here.
            log.exception("caller_not_told", inference=self._inference.id)

    def forget(self) -> None:
        """The caller is gone; idempotent."""
        self._told = None
        self._expire()

    def _expire(self) -> None:
        self._inference.waiters.pop(self.wake, None)
        self.wake()


async def wait_until_done(inference: Inference, seconds: float | None, timers: Timers) -> bool:
    """Until it is over or the seconds have passed; true when it is over."""
    if inference.done or (seconds is not None and seconds <= 0):
        return inference.done
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    wait = Wait(inference, seconds, timers, lambda: _set(woken))
    try:
        await woken
    finally:
        wait.forget()
    return inference.done


def wake_all(inference: Inference) -> None:
    if inference.ask.sink is not None:
        inference.ask.sink.end()
    waiters, inference.waiters = inference.waiters, {}
    for wake in waiters:
        wake()


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
