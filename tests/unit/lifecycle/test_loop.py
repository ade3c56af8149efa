"""The ticker: interval, wake-up, more, backoff, and a stop at any time."""

import asyncio

import pytest
from structlog.testing import capture_logs

from beacon_lifecycle import Loop, ManualClock, RunResult, SystemClock, WakeEvent
from tests.fixtures.waiting import WAIT_TIMEOUT_S


class Work:
    """A `run_once` that counts its calls, returns scripted results and fails on demand."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.moments: list[float] = []
        self.more = 0
        self.failures = 0

    async def run_once(self) -> RunResult:
        self.moments.append(self.clock.now())
        if self.failures:
            self.failures -= 1
            raise ConnectionError("no server")
        self.more = max(0, self.more - 1)
        return RunResult(0, more=self.more > 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def work(clock: ManualClock) -> Work:
    return Work(clock)


async def settle(clock: ManualClock) -> None:
    await clock.advance(0)


async def test_it_runs_at_once_and_then_each_interval(clock: ManualClock, work: Work) -> None:
    loop = Loop("ticks", work.run_once, interval_s=5, clock=clock)
    await loop.start()
    await settle(clock)
    await clock.advance(11)
    await loop.stop()
    assert work.moments == [0.0, 5.0, 10.0]


async def test_a_wake_up_does_not_wait_for_the_interval(clock: ManualClock, work: Work) -> None:
    loop = Loop("ticks", work.run_once, interval_s=3600, clock=clock)
    await loop.start()
    await settle(clock)
    await clock.advance(7)
    loop.wakeup.set()
    await settle(clock)
    await loop.stop()
    assert work.moments == [0.0, 7.0]


async def test_a_wake_up_during_a_run_is_not_lost(clock: ManualClock) -> None:
    wakeup, gate, runs = WakeEvent(), asyncio.Event(), []

    async def run_once() -> RunResult:
        runs.append(clock.now())
        await gate.wait()
        return RunResult(0)

    loop = Loop("ticks", run_once, interval_s=3600, clock=clock, wakeup=wakeup)
    await loop.start()
    await settle(clock)
    wakeup.set()
    gate.set()
    await settle(clock)
    await loop.stop()
    assert runs == [0.0, 0.0]


async def test_a_loop_continues_while_there_is_more(clock: ManualClock, work: Work) -> None:
    work.more = 6
    loop = Loop("ticks", work.run_once, interval_s=3600, clock=clock)
    await loop.start()
    await settle(clock)
    await settle(clock)
    await loop.stop()
    assert work.moments == [0.0] * 6


async def test_endless_work_yields_to_other_tasks(clock: ManualClock) -> None:
    async def run_once() -> RunResult:
        return RunResult(0, more=True)

    loop = Loop("busy", run_once, interval_s=1, clock=clock)
    await loop.start()
    await asyncio.wait_for(asyncio.sleep(0), WAIT_TIMEOUT_S)
    await asyncio.wait_for(loop.stop(), WAIT_TIMEOUT_S)


async def test_delays_after_failures_grow_up_to_a_bound(clock: ManualClock, work: Work) -> None:
    work.failures = 5
    loop = Loop("ticks", work.run_once, interval_s=1, clock=clock, max_backoff_s=10)
    await loop.start()
    await settle(clock)
    await clock.advance(36)
    assert work.moments == [0.0, 2.0, 6.0, 14.0, 24.0, 34.0, 35.0, 36.0]
    await loop.stop()


async def test_success_resets_the_backoff(clock: ManualClock, work: Work) -> None:
    loop = Loop("ticks", work.run_once, interval_s=1, clock=clock)
    work.failures = 2
    await loop.start()
    await settle(clock)
    await clock.advance(6)
    work.failures = 1
    await clock.advance(1)
    await clock.advance(2)
    await loop.stop()
    assert work.moments == [0.0, 2.0, 6.0, 7.0, 9.0]


async def test_wake_ups_do_not_shorten_the_backoff(clock: ManualClock, work: Work) -> None:
    work.failures = 1
    loop = Loop("ticks", work.run_once, interval_s=5, clock=clock)
    await loop.start()
    await settle(clock)
    for _ in range(5):
        loop.wakeup.set()
        await clock.advance(1)
    assert work.moments == [0.0]
    await clock.advance(5)
    assert work.moments[:2] == [0.0, 10.0]
    await loop.stop()


async def test_a_loop_survives_more_failures_than_a_float_can_double(clock: ManualClock, work: Work) -> None:
    work.failures = 1100
    loop = Loop("ticks", work.run_once, interval_s=1, clock=clock, max_backoff_s=2)
    await loop.start()
    await settle(clock)
    with capture_logs():
        await clock.advance(2 * 1101)
    assert len(work.moments) > 1100
    assert work.failures == 0
    await loop.stop()


async def test_stop_waits_for_the_current_run(clock: ManualClock) -> None:
    gate, finished = asyncio.Event(), []

    async def run_once() -> RunResult:
        await gate.wait()
        finished.append(True)
        return RunResult(0)

    loop = Loop("ticks", run_once, interval_s=1, clock=clock)
    await loop.start()
    await settle(clock)
    stopping = asyncio.ensure_future(loop.stop())
    await settle(clock)
    assert not stopping.done()
    gate.set()
    await asyncio.wait_for(stopping, WAIT_TIMEOUT_S)
    assert finished == [True]


async def test_a_cancelled_stop_ends_the_run_by_force(clock: ManualClock) -> None:
    cancelled = asyncio.Event()

    async def run_once() -> RunResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return RunResult(0)

    loop = Loop("stuck", run_once, interval_s=1, clock=clock)
    await loop.start()
    await settle(clock)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(loop.stop(), 0.01)
    await asyncio.wait_for(cancelled.wait(), WAIT_TIMEOUT_S)
    await asyncio.wait_for(loop.stop(), WAIT_TIMEOUT_S)


async def test_stop_ends_a_long_pause_and_a_long_backoff(clock: ManualClock, work: Work) -> None:
    work.failures = 1
    failing = Loop("failing", work.run_once, interval_s=3600, clock=clock, max_backoff_s=3600)
    idle = Loop("idle", Work(clock).run_once, interval_s=3600, clock=clock)
    for loop in (failing, idle):
        await loop.start()
    await settle(clock)
    await asyncio.wait_for(asyncio.gather(failing.stop(), idle.stop()), WAIT_TIMEOUT_S)
    await asyncio.wait_for(asyncio.gather(failing.wait(), idle.wait()), WAIT_TIMEOUT_S)


async def test_stop_before_start_and_twice(clock: ManualClock, work: Work) -> None:
    loop = Loop("ticks", work.run_once, interval_s=1, clock=clock)
    await loop.stop()
    await loop.start()
    await asyncio.wait_for(loop.wait(), WAIT_TIMEOUT_S)
    await asyncio.gather(loop.stop(), loop.stop())
    assert work.moments == []


async def test_the_error_of_a_dead_loop_is_raised_by_wait(clock: ManualClock) -> None:
    async def run_once() -> RunResult:
        raise asyncio.CancelledError

    loop = Loop("killed", run_once, interval_s=1, clock=clock)
    await loop.start()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(loop.wait(), WAIT_TIMEOUT_S)
    await asyncio.wait_for(loop.stop(), WAIT_TIMEOUT_S)


async def test_a_second_start_is_an_error(clock: ManualClock, work: Work) -> None:
    loop = Loop("ticks", work.run_once, interval_s=1, clock=clock)
    await loop.start()
    with pytest.raises(RuntimeError, match="started before"):
        await loop.start()
    await loop.stop()


def test_an_interval_of_zero_is_refused(clock: ManualClock, work: Work) -> None:
    with pytest.raises(ValueError, match="interval_s must be above zero"):
        Loop("ticks", work.run_once, interval_s=0, clock=clock)


async def test_stop_at_any_moment_leaves_nothing_running() -> None:
    """Start, wake and stop in any interleaving: every stop returns and runs do not overlap."""
    running = most = 0

    async def run_once() -> RunResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return RunResult(0, more=True)

    for yields in range(60):
        loop = Loop("stress", run_once, interval_s=0.001, clock=SystemClock())
        await loop.start()
        for _ in range(yields % 12):
            loop.wakeup.set()
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*(loop.stop() for _ in range(yields % 4 + 1))), WAIT_TIMEOUT_S)
        assert running == 0
    assert most == 1
