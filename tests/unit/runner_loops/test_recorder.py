"""Reports that arrive during a write share the next one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from unittest.mock import create_autospec

import pytest
from prometheus_client import CollectorRegistry

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import SystemClock
from beacon_runner.domain.execution.stage_result import ClaimedJob, StageReport
from beacon_runner.domain.queue.messages import Message
from beacon_runner.metrics import LoopMetrics
from beacon_runner.redis_queue import RedisQueue
from beacon_runner.worker.heartbeat import Heartbeat
from beacon_runner.worker.job_runner import JobRunner
from beacon_runner.worker.pending_reports import PendingReports
from beacon_runner.worker.recorder import Recorder
from beacon_runner.worker.run import JobRun
from tests.fixtures.waiting import until, within_timeout
from tests.unit.runner_loops.test_job_run import AT, RUNNING, claimed, opened


class GatedStore:
    """A write ends when the test lets it."""

    def __init__(self) -> None:
        self.gates: list[tuple[frozenset[JobId], asyncio.Event]] = []

    async def claim(self, messages: Sequence[Message], worker: str) -> Sequence[ClaimedJob]:
        raise AssertionError(f"{worker} does not claim {messages} here")

    async def record(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        jobs, gate = frozenset(report.claimed.id for report in reports), asyncio.Event()
        self.gates.append((jobs, gate))
        await gate.wait()
        return jobs

    async def writes(self, number: int) -> None:
        await until(lambda: len(self.gates) >= number, f"write {number} begins")

    def sizes(self) -> list[int]:
        return [len(jobs) for jobs, _ in self.gates]


@pytest.fixture
def store() -> GatedStore:
    return GatedStore()


@pytest.fixture
def recorder(store: GatedStore) -> Recorder:
    return Recorder(
        PendingReports(),
        store,
        create_autospec(RedisQueue, instance=True),
        create_autospec(JobRunner, instance=True),
        create_autospec(Heartbeat, instance=True),
        "worker",
        lambda: None,
        SystemClock(),
        LoopMetrics(CollectorRegistry()),
    )


@pytest.fixture
async def pending(recorder: Recorder) -> AsyncIterator[PendingReports]:
    """The pending reports of a recorder with one writer."""
    task = asyncio.ensure_future(recorder.run())
    yield recorder.pending
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def made(number: int) -> list[JobRun]:
    jobs = [claimed() for _ in range(number)]
    return [JobRun(Message(job.id, 1, 0, 1, JobClass.LOW, "lane"), job, ()) for job in jobs]


def added(pending: PendingReports, number: int) -> list[JobRun]:
    runs = made(number)
    for run in runs:
        pending.add(run)
    return runs


async def test_reports_during_a_write_share_the_next_one(pending: PendingReports, store: GatedStore) -> None:
    added(pending, 1)
    await store.writes(1)
    added(pending, 2)
    added(pending, 1)
    assert store.sizes() == [1]
    store.gates[0][1].set()
    await store.writes(2)
    assert store.sizes() == [1, 3]
    store.gates[1][1].set()
    async with within_timeout("all is written"):
        await pending.wait_idle()


async def test_a_run_added_during_its_write_is_written_again(
    pending: PendingReports, store: GatedStore
) -> None:
    (busy,) = added(pending, 1)
    await store.writes(1)
    pending.add(busy)
    store.gates[0][1].set()
    await store.writes(2)
    assert store.gates[1][0] == {busy.job.id}
    store.gates[1][1].set()
    async with within_timeout("all is written"):
        await pending.wait_idle()


def started() -> JobRun:
    run = opened()
    due = run.start_next(1)
    assert due is not None
    run.observe(due, RUNNING, AT)
    return run


async def test_a_start_is_not_written_separately_when_its_result_follows(
    pending: PendingReports, store: GatedStore
) -> None:
    run = started()
    pending.add_later(run)
    pending.add(run)
    await store.writes(1)
    store.gates[0][1].set()
    async with within_timeout("all is written"):
        await pending.wait_idle()
    assert store.sizes() == [1]
    later = started()
    pending.add_later(later)  # due after the first, so its write shows that nothing was left of it
    await store.writes(2)
    assert store.gates[1][0] == {later.job.id}


async def test_the_start_of_a_long_run_is_written(pending: PendingReports, store: GatedStore) -> None:
    run = started()
    pending.add_later(run)
    await store.writes(1)
    assert store.gates[0][0] == {run.job.id}


@pytest.fixture
async def second_writer(recorder: Recorder) -> AsyncIterator[None]:
    task = asyncio.ensure_future(recorder.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.usefixtures("second_writer")
async def test_a_second_writer_does_not_wait_for_the_first(
    pending: PendingReports, store: GatedStore
) -> None:
    added(pending, 1)
    await store.writes(1)
    added(pending, 2)
    await store.writes(2)
    assert store.sizes() == [1, 2]
    idle = asyncio.ensure_future(pending.wait_idle())
    store.gates[1][1].set()
    added(pending, 1)
    await store.writes(3)  # by the second writer; the first still writes
    store.gates[2][1].set()
    assert not idle.done()
    store.gates[0][1].set()
    async with within_timeout("both writers are idle"):
        await idle


@pytest.mark.usefixtures("second_writer")
async def test_two_reports_of_one_job_are_written_in_order(
    pending: PendingReports, store: GatedStore
) -> None:
    (run,) = added(pending, 1)
    await store.writes(1)
    pending.add(run)
    added(pending, 1)
    await store.writes(2)
    assert run.job.id not in store.gates[1][0]
    store.gates[1][1].set()
    store.gates[0][1].set()
    await store.writes(3)
    assert store.gates[2][0] == {run.job.id}
    store.gates[2][1].set()
    async with within_timeout("both writers are idle"):
        await pending.wait_idle()
