"""How often a cached value is loaded."""

import asyncio

from beacon_lifecycle import ManualClock
from beacon_runner.application.cached_snapshot import CachedSnapshot


async def test_a_slow_load_is_repeated_less_often() -> None:
    clock = ManualClock()
    loads, ended = 0, asyncio.Event()

    async def load() -> int:
        nonlocal loads
        loads += 1
        await ended.wait()
        return loads

    snapshot = CachedSnapshot("test", load, clock, fresh_s=0.2, max_fresh_s=1.0)
    snapshot.start_refresh()
    await asyncio.sleep(0)
    await clock.advance(0.1)
    ended.set()
    assert await snapshot.fresh(10.0) == 1

    await clock.advance(0.3)
    assert await snapshot.fresh(10.0) == 1, "it took 0.1 s"
    await clock.advance(0.2)
    assert await snapshot.fresh(10.0) == 2
    await clock.advance(0.3)
    assert await snapshot.fresh(10.0) == 3, "it took no time"
    await snapshot.close()


async def test_a_load_that_takes_very_long_is_repeated_after_the_longest_time() -> None:
    clock = ManualClock()
    loads, ended = 0, asyncio.Event()

    async def load() -> int:
        nonlocal loads
        loads += 1
        await ended.wait()
        return loads

    snapshot = CachedSnapshot("test", load, clock, fresh_s=0.2, max_fresh_s=1.0)
    snapshot.start_refresh()
    await asyncio.sleep(0)
    await clock.advance(5.0)
    ended.set()
    assert await snapshot.fresh(10.0) == 1

    await clock.advance(1.1)
    assert await snapshot.fresh(10.0) == 2
    await snapshot.close()
