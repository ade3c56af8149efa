"""Timers: order, cancellation and bounded memory."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from beacon_lifecycle import ManualClock
from beacon_router.service.timers import Timers


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def timers(clock: ManualClock) -> AsyncIterator[Timers]:
    timers = Timers(clock)
    task = asyncio.ensure_future(timers.run())
    yield timers
    task.cancel()
    await asyncio.wait([task])


async def test_callbacks_run_at_their_times_in_order(clock: ManualClock, timers: Timers) -> None:
    seen: list[tuple[str, float]] = []
    timers.after(3, lambda: seen.append(("late", clock.now())))
    timers.after(1, lambda: seen.append(("early", clock.now())))
    await clock.advance(0)
    await clock.advance(5)

    assert seen == [("early", 1), ("late", 3)]


async def test_an_earlier_timer_added_later_is_not_late(clock: ManualClock, timers: Timers) -> None:
    seen: list[float] = []
    timers.after(100, lambda: None)
    await clock.advance(0)
    timers.after(2, lambda: seen.append(clock.now()))
    await clock.advance(0)
    await clock.advance(2)

    assert seen == [2]


async def test_a_cancelled_timer_never_fires(clock: ManualClock, timers: Timers) -> None:
    seen: list[str] = []
    timer = timers.after(1, lambda: seen.append("cancelled"))
    timers.after(1, lambda: seen.append("kept"))
    timer.cancel()
    timer.cancel()
    await clock.advance(0)
    await clock.advance(2)

    assert seen == ["kept"]
    assert len(timers) == 0


async def test_a_callback_may_add_a_timer(clock: ManualClock, timers: Timers) -> None:
    seen: list[float] = []

    def again() -> None:
        timers.after(1, lambda: seen.append(clock.now()))

    timers.after(1, again)
    await clock.advance(0)
    await clock.advance(1)
    await clock.advance(1)

    assert seen == [2]


async def test_cancelled_timers_do_not_accumulate(timers: Timers) -> None:
    alive = timers.after(1_000, lambda: None)
    for _ in range(20_000):
        timers.after(500, lambda: None).cancel()

    assert len(timers) == 1
    assert len(timers._heap) < 5_000
    alive.cancel()


async def test_a_callback_that_fails_ends_the_task(clock: ManualClock) -> None:
    timers = Timers(clock)
    task = asyncio.ensure_future(timers.run())

    def fail() -> None:
        raise RuntimeError("a defect")

    timers.after(1, fail)
    await clock.advance(0)
    await clock.advance(1)

    with pytest.raises(RuntimeError, match="a defect"):
        await task
