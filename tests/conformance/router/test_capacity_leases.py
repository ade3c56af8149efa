"""A process's lease of a limit follows its demand, and is shared when others wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from beacon_router.limits.lease import CapacityLease
from beacon_router.limits.port import SharedLimit
from tests.conformance.router.harness import GPU, LimiterHarness
from tests.fixtures.waiting import until, within_timeout

CAP = 4
LIMIT = SharedLimit(GPU.name, CAP)


class Worker:
    """A minimal router: starts a run whenever the lease allows, up to its demand."""

    def __init__(self, demand: int = 0) -> None:
        self.lease: CapacityLease | None = None
        self.backlog = demand
        self.running = 0
        self.completed = 0

    def capacity_changed(self, capacity: int) -> None:
        self.check(capacity)

    def check(self, capacity: int) -> None:
        assert self.lease is not None
        while self.running < capacity and self.backlog:
            self.backlog -= 1
            self.running += 1
            self.lease.acquired()
        self.lease.set_demand(min(CAP, self.running + self.backlog))

    def submit(self, count: int) -> None:
        assert self.lease is not None
        self.backlog += count
        self.check(self.lease.capacity)

    def finish(self) -> None:
        assert self.lease is not None
        self.running -= 1
        self.completed += 1
        self.check(self.lease.released())


StartWorker = Callable[[], Awaitable[Worker]]


@pytest.fixture
async def start_worker(harness: LimiterHarness) -> AsyncIterator[StartWorker]:
    stopping: list[CapacityLease] = []

    async def start() -> Worker:
        worker = Worker()
        worker.lease = CapacityLease(LIMIT, await harness.process(), harness.clock, worker.capacity_changed)
        stopping.append(worker.lease)
        await worker.lease.start()
        return worker

    yield start
    for lease in stopping:
        await lease.stop()


async def test_a_share_grows_with_the_demand(start_worker: StartWorker) -> None:
    worker = await start_worker()

    worker.submit(3)

    await settled(lambda: worker.running == 3)


async def test_a_single_process_gets_the_whole_cap_and_no_more(start_worker: StartWorker) -> None:
    worker = await start_worker()

    worker.submit(20)
    await settled(lambda: worker.running == CAP)
    for _ in range(16):
        worker.finish()
        await settled(lambda: worker.running == CAP)

    assert worker.completed == 16


async def test_idle_slots_are_released_to_waiting_processes(start_worker: StartWorker) -> None:
    first, second = await start_worker(), await start_worker()
    first.submit(4)
    await settled(lambda: first.running == CAP)
    for _ in range(CAP):
        first.finish()

    second.submit(4)

    await settled(lambda: second.running == CAP)


async def test_a_busy_process_releases_a_slot_after_each_run(start_worker: StartWorker) -> None:
    busy, second = await start_worker(), await start_worker()
    busy.submit(1_000)
    await settled(lambda: busy.running == CAP)

    second.submit(1_000)
    await settled(lambda: "others wait" in repr(busy.lease))
    busy.finish()
    await settled(lambda: second.running == 1)
    busy.finish()
    await settled(lambda: second.running == 2)

    assert busy.running + second.running <= CAP


async def test_two_busy_processes_both_progress(start_worker: StartWorker) -> None:
    workers = [await start_worker(), await start_worker()]
    for worker in workers:
        worker.submit(1_000)

    async with within_timeout("both have done 20"):
        while min(worker.completed for worker in workers) < 20:
            for worker in workers:
                for _ in range(worker.running):
                    worker.finish()
            assert sum(worker.running for worker in workers) <= CAP
            await asyncio.sleep(0.001)


async def test_a_stopped_process_releases_its_slots_at_once(start_worker: StartWorker) -> None:
    first, second = await start_worker(), await start_worker()
    first.submit(4)
    await settled(lambda: first.running == CAP)
    second.submit(2)
    await settled(lambda: "others wait" in repr(first.lease))

    assert first.lease is not None
    await first.lease.stop()

    await settled(lambda: second.running == 2)


async def test_slots_of_a_crashed_process_are_free_after_the_lease(
    harness: LimiterHarness, start_worker: StartWorker
) -> None:
    crashed, alive = await start_worker(), await start_worker()
    crashed.submit(4)
    await settled(lambda: crashed.running == CAP)
    alive.submit(2)

    assert crashed.lease is not None
    await crashed.lease._tasks.close()

    async def served() -> bool:
        await harness.pass_time(harness.lease_s / 10)
        return alive.running == 2

    await until(served, "the slots of the crashed process are in use again")


async def settled(condition: Callable[[], bool]) -> None:
    async def reached() -> bool:
        return condition()

    await until(reached, "the lease to settle")
