"""A committed cancel reaches the routers, whichever process dies. Routers and GPU simulator are real.

The test simulates an API process that commits the cancel and dies before it notifies the routers. Runs are
held on the GPU and never released: only a cancel ends them.
"""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from beacon_contracts.ids import JobId, encode_execution_id
from beacon_contracts.inference import Failover
from tests.fixtures.waiting import until
from tests.integration.runner_loops.harness import LoopHarness, matrix
from tests.integration.runner_loops.processes import ProcessHarness, process_harness


@pytest.fixture
async def processes(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[ProcessHarness]:
    async with process_harness(database_url, redis_url, tmp_path) as made:
        await made.gpu.hold()
        yield made


async def outcomes(processes: ProcessHarness, job: JobId) -> list[str]:
    calls = await processes.gpu.ledger()
    return [
        call["outcome"]
        for call in calls
        if call["request_id"].startswith(encode_execution_id(job, 0, 0)[:-1])
    ]


async def routers_know(harness: LoopHarness) -> None:
    async def no_trace() -> bool:
        return not await harness.database.fetch("SELECT FROM router_cancels")

    await until(no_trace, "the routers have confirmed the cancel")


async def test_a_cancel_reaches_the_router_after_the_api_died(
    harness: LoopHarness, processes: ProcessHarness
) -> None:
    await processes.relay("relay")
    await processes.worker("worker")
    (job,) = await harness.submit()
    await processes.gpu.wait_running(1)
    await harness.cancel(job)
    await processes.gpu.wait_running(0)
    await routers_know(harness)
    await harness.nothing_left()
    assert await outcomes(processes, job) == ["aborted"]
    assert (await harness.job(job))["state"] == "cancelled"
    (execution,) = await harness.executions(job)
    assert (execution["state"], execution["actual_region"], execution["attempt"]) == ("cancelled", "US", 1)
    assert execution["run_s"] > 0, "the time on the GPU is recorded"


async def test_a_cancel_reaches_the_router_after_api_and_worker_died(
    harness: LoopHarness, processes: ProcessHarness
) -> None:
    await processes.relay("relay")
    worker = await processes.worker("worker")
    (job,) = await harness.submit()
    await processes.gpu.wait_running(1)
    worker.send(signal.SIGKILL)
    await worker.exited()
    await harness.cancel(job)
    await processes.gpu.wait_running(0)
    assert await outcomes(processes, job) == ["aborted"]


async def test_a_run_that_a_stopped_worker_left_at_the_router_ends_with_its_job(
    harness: LoopHarness, processes: ProcessHarness
) -> None:
    """A deployment returns the job to the queue and leaves its run at the router; no worker joins it."""
    processes.change_config("stop_grace_s = 20", "stop_grace_s = 0.3")
    await processes.relay("relay")
    worker = await processes.worker("worker")
    (job,) = await harness.submit()
    await processes.gpu.wait_running(1)
    worker.send(signal.SIGTERM)
    await worker.exited()
    assert (await harness.job(job))["worker"] is None
    await harness.cancel(job)
    await processes.gpu.wait_running(0)


async def test_no_execution_of_a_cancelled_job_is_started(
    harness: LoopHarness, processes: ProcessHarness
) -> None:
    """Four run concurrently: a cancelled execution must not start another one."""
    processes.change_config("job_parallelism = 256 ", "job_parallelism = 4 ")
    await processes.relay("relay")
    await processes.worker("worker")
    (job,) = await harness.submit(body=matrix(questions=50))
    await processes.gpu.wait_running(4)
    await harness.cancel(job)
    await processes.gpu.wait_running(0)
    await routers_know(harness)
    await harness.nothing_left()
    assert await outcomes(processes, job) == ["aborted"] * 4


async def test_a_cancel_starts_nothing_that_waits(harness: LoopHarness, processes: ProcessHarness) -> None:
    """The slot of a run that ends would start the next execution, on its way to be cancelled too."""
    await processes.relay("relay")
    await processes.worker("worker")
    body = matrix(questions=20).model_copy(update={"failover": Failover.PINNED})
    jobs = await harness.submit(2, body=body)
    await processes.gpu.wait_running(4)

    async def states() -> dict[str, int]:
        rows = await harness.database.fetch("SELECT state, count(*) FROM executions GROUP BY state")
        return dict(tuple(row) for row in rows)

    async def all_sent() -> bool:
        return await states() == {"running": 4, "queued": 36}

    await until(all_sent, "all are at the router, and the starts are recorded")
    for job in jobs:
        await harness.cancel(job)
    await routers_know(harness)
    assert [call["outcome"] for call in await processes.gpu.ledger()] == ["aborted"] * 4
    assert await states() == {"cancelled": 40}
