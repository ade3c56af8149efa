"""Reports that arrive during a write share the next one."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from prometheus_client import CollectorRegistry

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import SystemClock
from beacon_runner.domain.messages import Message
from beacon_runner.domain.stage_result import ClaimedJob, StageReport
from beacon_runner.metrics import LoopMetrics
from beacon_runner.worker.recorder import START_DELAY_S, Recorder
from beacon_runner.worker.run import JobRun
from tests.fixtures.waiting import patience, until
from tests.unit.runner_loops.test_job_run import claimed


class GatedStore:
    """A write ends when the test lets it."""

    def __init__(self) -> None:
        self.gates: list[tuple[frozenset[JobId], asyncio.Event]] = []

    async def claim(self, messages: Sequence[Message], worker: str) -> Sequence[ClaimedJob]:
        raise AssertionError(f"{worker} does not claim {messages} here")

    async def record(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        jobs, gate = frozenset(report.job for report in reports), asyncio.Event()
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
async def recorder(store: GatedStore) -> AsyncIterator[Recorder]:
    recorder = Recorder(store, SystemClock(), LoopMetrics(CollectorRegistry()))
    task = asyncio.ensure_future(recorder.run(_post_commit))
    yield recorder
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _post_commit(
    runs: Sequence[JobRun], reports: Sequence[StageReport], applied: frozenset[JobId]
) -> None:
    assert len(runs) == len(reports) == len(applied)


def made(number: int) -> list[JobRun]:
    jobs = [claimed() for _ in range(number)]
    return [JobRun(Message(job.id, 1, 0, 1, JobClass.LOW, "lane"), job, ()) for job in jobs]


def added(recorder: Recorder, number: int) -> list[JobRun]:
    runs = made(number)
    for run in runs:
        recorder.add(run)
    return runs


async def test_what_arrives_during_a_write_shares_the_next_one(recorder: Recorder, store: GatedStore) -> None:
    added(recorder, 1)
    await store.writes(1)
    added(recorder, 2)
    added(recorder, 1)
    assert store.sizes() == [1]
    store.gates[0][1].set()
    await store.writes(2)
    assert store.sizes() == [1, 3]
    store.gates[1][1].set()
    async with patience("all is written"):
        await recorder.wait_idle()


async def test_a_run_added_during_its_write_is_written_again(recorder: Recorder, store: GatedStore) -> None:
    (busy,) = added(recorder, 1)
    await store.writes(1)
    recorder.add(busy)
    store.gates[0][1].set()
    await store.writes(2)
    assert store.gates[1][0] == {busy.job.id}
    store.gates[1][1].set()
    async with patience("all is written"):
        await recorder.wait_idle()


async def test_a_start_is_not_written_separately_when_its_result_follows(
    recorder: Recorder, store: GatedStore
) -> None:
    (run,) = made(1)
    recorder.add_started(run)
    recorder.add(run)
    await store.writes(1)
    store.gates[0][1].set()
    async with patience("all is written"):
        await recorder.wait_idle()
    await asyncio.sleep(2 * START_DELAY_S)  # nothing is left that would be written later
    assert store.sizes() == [1]


async def test_the_start_of_a_long_run_is_written(recorder: Recorder, store: GatedStore) -> None:
    (run,) = made(1)
    recorder.add_started(run)
    await store.writes(1)
    assert store.gates[0][0] == {run.job.id}


@pytest.fixture
async def second_writer(recorder: Recorder) -> AsyncIterator[None]:
    task = asyncio.ensure_future(recorder.run(_post_commit))
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.usefixtures("second_writer")
async def test_a_second_writer_does_not_wait_for_the_first(recorder: Recorder, store: GatedStore) -> None:
    added(recorder, 1)
    await store.writes(1)
    added(recorder, 2)
    await store.writes(2)
    assert store.sizes() == [1, 2]
    idle = asyncio.ensure_future(recorder.wait_idle())
    store.gates[1][1].set()
    added(recorder, 1)
    await store.writes(3)  # by the second writer; the first still writes
    store.gates[2][1].set()
    assert not idle.done()
    store.gates[0][1].set()
    async with patience("both writers are idle"):
        await idle


@pytest.mark.usefixtures("second_writer")
async def test_two_reports_of_one_job_are_written_in_order(recorder: Recorder, store: GatedStore) -> None:
    (run,) = added(recorder, 1)
    await store.writes(1)
    recorder.add(run)
    added(recorder, 1)
    await store.writes(2)
    assert run.job.id not in store.gates[1][0]
    store.gates[1][1].set()
    store.gates[0][1].set()
    await store.writes(3)
    assert store.gates[2][0] == {run.job.id}
    store.gates[2][1].set()
    async with patience("both writers are idle"):
        await recorder.wait_idle()
