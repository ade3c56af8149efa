"""Workers that die while a backend runs their work: the next one continues the run. The router is a stub."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from beacon_contracts.ids import encode_execution_id
from tests.fixtures.waiting import until
from tests.integration.runner_loops.harness import LoopHarness
from tests.integration.runner_loops.processes import Stage, stage
from tests.integration.runner_router_client.router_stub import RouterStub, router_stub

REMOTE = {"backend": "us-1", "run_id": "pred-17"}


@pytest.fixture
async def router() -> AsyncIterator[RouterStub]:
    async with router_stub() as one:
        yield one


@pytest.fixture
async def scene(
    database_url: str, redis_url: str, tmp_path: Path, router: RouterStub
) -> AsyncIterator[Stage]:
    async with stage(database_url, redis_url, tmp_path) as made:
        made.environment["BEACON_ROUTER_URLS"] = router.url
        await made.relay("relay")
        yield made


async def test_the_next_worker_continues_the_run_at_the_backend(
    harness: LoopHarness, scene: Stage, router: RouterStub
) -> None:
    """Worker and router die together: only what is recorded leads to the run."""
    worker = await scene.worker("first")
    (job,) = await harness.submit()
    execution = encode_execution_id(job, 0, 0)
    await router.until(lambda: execution in router.known)
    await router.report(execution, state="running", backend="us-1", actual_region="US", remote=REMOTE)

    async def recorded() -> bool:
        return [one["remote"] for one in await harness.executions(job)] == [REMOTE]

    await until(recorded, "the run at the backend is recorded")
    worker.send(signal.SIGKILL)
    await worker.exited()
    router.known.clear()
    await scene.worker("second")
    await router.until(lambda: execution in router.known)
    assert [body["remote"] for body in router.bodies] == [None, REMOTE]
    await router.finish(execution)
    assert await harness.ended(job) == ["completed"]
    assert [one["remote"] for one in await harness.executions(job)] == [None]
