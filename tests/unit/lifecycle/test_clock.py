"""The manual clock: moves only on request, wakes sleepers in due order, never goes back."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from beacon_lifecycle import ManualClock, SystemClock, TaskSet


async def test_sleepers_wake_in_due_order_at_their_own_time() -> None:
    clock, tasks, woken = ManualClock(), TaskSet("test"), []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.now()))

    for seconds in (3.0, 1.0, 2.0):
        tasks.spawn(f"sleep {seconds}", sleep(seconds))
    await clock.advance(0)
    await clock.advance(10)
    assert woken == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]
    assert clock.now() == 10.0


async def test_sleepers_of_equal_time_wake_in_order() -> None:
    clock, tasks, woken = ManualClock(), TaskSet("test"), []

    async def sleep(name: str) -> None:
        await clock.sleep(5)
        woken.append(name)

    for name in "abcd":
        tasks.spawn(name, sleep(name))
    await clock.advance(0)
    await clock.advance(5)
    assert woken == list("abcd")


async def test_a_sleep_begun_during_an_advance_is_part_of_it() -> None:
    clock, tasks, moments = ManualClock(), TaskSet("test"), []

    async def tick() -> None:
        for _ in range(4):
            await clock.sleep(2)
            moments.append(clock.now())

    tasks.spawn("tick", tick())
    await clock.advance(0)
    await clock.advance(7)
    assert moments == [2.0, 4.0, 6.0]
    await clock.advance(1)
    assert moments == [2.0, 4.0, 6.0, 8.0]


async def test_a_cancelled_sleeper_is_skipped() -> None:
    clock, tasks = ManualClock(), TaskSet("test")
    sleeper = tasks.spawn("sleep", clock.sleep(1))
    await clock.advance(0)
    sleeper.cancel()
    await clock.advance(5)
    assert sleeper.cancelled()
    assert clock.now() == 5.0


async def test_a_sleep_of_nothing_lets_others_run_and_needs_no_advance() -> None:
    clock = ManualClock()
    ran: list[bool] = []
    asyncio.get_running_loop().call_soon(ran.append, True)
    await clock.sleep(0)
    await clock.sleep(-1)
    assert ran == [True]


async def test_wall_time_moves_with_the_clock() -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    clock = ManualClock(start)
    await clock.advance(90)
    assert clock.wall() == start + timedelta(seconds=90)


async def test_the_clock_never_goes_back() -> None:
    clock = ManualClock()
    await clock.advance(5)
    with pytest.raises(ValueError, match="never goes back"):
        await clock.advance(-1)
    assert clock.now() == 5.0


async def test_the_system_clock_is_in_utc_and_only_grows() -> None:
    clock = SystemClock()
    before = clock.now()
    await clock.sleep(0.001)
    assert clock.now() > before
    assert clock.wall().tzinfo is UTC
