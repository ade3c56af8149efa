"""Reloading after SIGHUP."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from beacon_lifecycle import ReloadOnSignal
from tests.fixtures.waiting import until, within_timeout


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def hang_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


async def test_signals_during_a_reload_cause_one_more() -> None:
    begun = 0
    proceed = asyncio.Event()

    async def reload() -> None:
        nonlocal begun
        begun += 1
        await proceed.wait()

    service = ReloadOnSignal(reload)
    await service.start()
    try:
        hang_up()
        await until(lambda: begun == 1, "the first reload has begun")
        hang_up()
        hang_up()
        await asyncio.sleep(0)
        assert begun == 1
        proceed.set()
        await until(lambda: begun == 2, "the second reload has begun")
    finally:
        await service.stop()
    hang_up()  # ends a process that does not handle it
    assert begun == 2


async def test_a_signal_before_the_start_is_handled_after_it() -> None:
    begun = asyncio.Event()

    async def reload() -> None:
        begun.set()

    service = ReloadOnSignal(reload)
    hang_up()
    await service.start()
    try:
        async with within_timeout("the reload has begun"):
            await begun.wait()
    finally:
        await service.stop()


async def test_a_reload_that_raises_is_the_death_of_the_service() -> None:
    async def reload() -> None:
        raise ValueError("a defect")

    service = ReloadOnSignal(reload)
    await service.start()
    try:
        hang_up()
        async with within_timeout("the service dies"):
            with pytest.raises(RuntimeError, match="reload ended"):
                await service.wait()
    finally:
        await service.stop()
