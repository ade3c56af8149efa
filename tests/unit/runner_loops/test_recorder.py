"""Writes share what was noted meanwhile; a crowd gets a second writer, a run never two at once."""

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
from beacon_runner.worker.recorder import Recorder
from beacon_runner.worker.run import JobRun
from tests.fixtures.waiting import patience, until
from tests.unit.runner_loops.test_job_run import claimed


class GatedStore:
    """A write ends when the test lets it."""

    def __init__(self) -> None:
        self.gates: list[tuple[frozenset[JobId], asyncio.Event]] = []

    async def claim(self, messages: Sequence[Message], worker: str) -> Sequence[ClaimedJob]:
        raise AssertionError(f"{worker} does not claim {messages} here")

    async def confirm(self, message: Message, job: ClaimedJob, worker: str) -> bool:
        raise AssertionError(f"{worker} does not confirm {message} of {job} here")

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
    recorder = Recorder(store, SystemClock(), LoopMetrics(CollectorRegistry()), crowd=3)
    tasks = [asyncio.ensure_future(writer(_settle)) for writer in (recorder.run, recorder.help)]
    yield recorder
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _settle(runs: Sequence[JobRun], reports: Sequence[StageReport], applied: frozenset[JobId]) -> None:
    assert len(runs) == len(reports) == len(applied)


def noted(recorder: Recorder, number: int) -> list[JobRun]:
    jobs = [claimed() for _ in range(number)]
    runs = [JobRun(Message(job.id, 1, 0, 1, JobClass.LOW, "lane"), job, ()) for job in jobs]
    for run in runs:
        recorder.note(run)
    return runs


async def test_a_few_wait_for_the_write_under_way_and_a_crowd_does_not(
    recorder: Recorder, store: GatedStore
) -> None:
    noted(recorder, 1)
    await store.writes(1)
    noted(recorder, 2)
    await asyncio.sleep(0)
    assert store.sizes() == [1]
    noted(recorder, 1)
    await store.writes(2)
    assert store.sizes() == [1, 3]
    for _, gate in store.gates:
        gate.set()
    async with patience("all is written"):
        await recorder.idle()


async def test_who_is_being_written_is_not_written_beside_it(recorder: Recorder, store: GatedStore) -> None:
    (busy,) = noted(recorder, 1)
    await store.writes(1)
    recorder.note(busy)
    others = noted(recorder, 2)
    await store.writes(2)
    assert store.gates[1][0] == {run.job.id for run in others}
    store.gates[1][1].set()
    store.gates[0][1].set()
    await store.writes(3)
    assert store.gates[2][0] == {busy.job.id}
    store.gates[2][1].set()
    async with patience("all is written"):
        await recorder.idle()
