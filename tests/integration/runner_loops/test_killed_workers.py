"""Workers that die or freeze during a job, as processes with a real router and simulated GPU."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from beacon_contracts.ids import JobId, encode_execution_id
from tests.fixtures.waiting import until
from tests.integration.runner_loops.harness import LoopHarness
from tests.integration.runner_loops.processes import Process, ProcessHarness, process_harness


@pytest.fixture
async def processes(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[ProcessHarness]:
    async with process_harness(database_url, redis_url, tmp_path) as made:
        yield made


async def delivered(harness: LoopHarness, job: JobId, times: int) -> None:
    """A lower bound: a worker that the machine stops for longer than a lease loses the job again."""

    async def so_often() -> bool:
        return bool((await harness.job(job))["deliveries"] >= times)

    await until(so_often, f"the job is delivered {times} times")


async def holder(harness: LoopHarness, job: JobId, *workers: Process) -> Process:
    """The worker that has the job."""
    name = (await harness.job(job))["worker"]
    (found,) = [worker for worker in workers if f"-{worker.started.pid}-" in name]
    return found


async def runs(processes: ProcessHarness, job: JobId) -> int:
    return len(await processes.gpu.ledger(request_id=encode_execution_id(job, 0, 0)))


async def test_a_job_whose_worker_was_killed_is_finished_by_another(
    harness: LoopHarness, processes: ProcessHarness
) -> None:
    """Incident 12: with late acknowledgement a crashed task met its own lock, and never ran again."""
    await processes.relay("relay")
    await processes.gpu.hold()
    workers = await processes.worker("first"), await processes.worker("second")
    (job,) = await harness.submit()
    await processes.gpu.wait_running(1)
    (await holder(harness, job, *workers)).send(signal.SIGKILL)
    await delivered(harness, job, 2)
    await processes.gpu.release()
    assert await harness.ended(job) == ["completed"]
    assert await runs(processes, job) == 1  # the second joined the run that the first had started
    await harness.nothing_left()  # and no counter leaked


async def test_a_worker_that_resumes_after_its_lease_changes_nothing(
    harness: LoopHarness, processes: ProcessHarness
) -> None:
    await processes.relay("relay")
    await processes.gpu.hold()
    workers = await processes.worker("first"), await processes.worker("second")
    (job,) = await harness.submit()
    await processes.gpu.wait_running(1)
    frozen = await holder(harness, job, *workers)
    frozen.send(signal.SIGSTOP)
    await delivered(harness, job, 2)
    frozen.send(signal.SIGCONT)  # both believe to hold it, until the first heartbeat or write
    await frozen.logs("leases_lost", "fence_conflicts_found")
    await processes.gpu.release()
    assert await harness.ended(job) == ["completed"]
    assert [execution["state"] for execution in await harness.executions(job)] == ["completed"]
    assert await runs(processes, job) == 1
    await harness.nothing_left()
    for worker in workers:
        worker.must_be_alive()


async def test_a_restart_of_workers_charges_no_attempt(
    harness: LoopHarness, processes: ProcessHarness
) -> None:
    await processes.gpu.hold()
    processes.change_config("stop_grace_s = 20", "stop_grace_s = 0.3")
    await processes.relay("relay")
    first = await processes.worker("first")
    (job,) = await harness.submit()
    await processes.gpu.wait_running(1)
    first.send(signal.SIGTERM)
    assert await first.exited() == 0
    row = await harness.job(job)
    assert (row["worker"], row["attempt"], row["deliveries"]) == (None, 1, 0)
    await processes.worker("second")
    await delivered(harness, job, 1)
    assert await runs(processes, job) == 1


async def test_a_killed_relay_loses_nothing(harness: LoopHarness, processes: ProcessHarness) -> None:
    relay, _ = await processes.relay("relay"), await processes.worker("worker")
    jobs = await harness.submit(50)
    relay.send(signal.SIGKILL)
    await relay.exited()
    jobs += await harness.submit(50)
    await processes.relay("relay-2")
    assert await harness.ended(*jobs) == ["completed"] * 100
    ledger = await processes.gpu.ledger()
    assert len({call["request_id"] for call in ledger}) == len(ledger) == 100
    await harness.nothing_left()


async def test_jobs_complete_when_redis_is_emptied_under_load(
    harness: LoopHarness, processes: ProcessHarness
) -> None:
    await processes.relay("relay")
    await processes.gpu.hold()
    await processes.worker("one")
    jobs = await harness.submit(60)
    await processes.gpu.wait_running(1)  # this model runs one at a time
    await harness.transport.redis.flushdb()
    jobs += await harness.submit(20)
    await processes.gpu.release()
    assert await harness.ended(*jobs) == ["completed"] * 80
    ledger = await processes.gpu.ledger()
    assert len({call["request_id"] for call in ledger}) == len(ledger) == 80
    await harness.nothing_left()
