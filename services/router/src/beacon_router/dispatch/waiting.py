"""Callers that wait for an inference: each is a future, woken once, in the order they came."""

import asyncio

from beacon_router.dispatch.inference import Inference
from beacon_router.dispatch.timers import Timers


async def wait_until_done(inference: Inference, seconds: float | None, timers: Timers) -> bool:
    """Until it is over or the seconds have passed; true when it is over."""
    if inference.done or (seconds is not None and seconds <= 0):
        return inference.done
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    inference.waiters.append(woken)
    timer = None if seconds is None else timers.after(seconds, lambda: _wake(woken))
    try:
        await woken
    finally:
        if timer is not None:
            timer.cancel()
        if not inference.done:
            inference.waiters.remove(woken)
    return inference.done


def wake_all(inference: Inference) -> None:
    if inference.ask.sink is not None:
        inference.ask.sink.end()
    waiters, inference.waiters = inference.waiters, []
    for woken in waiters:
        _wake(woken)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
