"""Processes that start before their servers wait for them, log it and continue."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from beacon_runner.migrations import migrate
from tests.fixtures.delayed_listener import delayed_listener
from tests.integration.runner_loops.harness import LoopHarness
from tests.integration.runner_loops.processes import Stage, stage


@pytest.fixture
async def scene(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(database_url, redis_url, tmp_path) as made:
        yield made


async def test_relay_and_worker_can_start_before_their_servers(harness: LoopHarness, scene: Stage) -> None:
    async with AsyncExitStack() as listeners:
        closed = []
        for name in ("DATABASE_URL", "REDIS_URL", "BEACON_ROUTER_URLS"):
            closed.append(await listeners.enter_async_context(delayed_listener(scene.environment[name])))
            scene.environment[name] = closed[-1].url
        relay, worker = await scene.relay("relay"), await scene.worker("worker")
        await worker.says("database_unavailable_at_start")
        await worker.says("heartbeat_failed")
        await relay.says("loop_failed")
        (job,) = await harness.submit()
        for listener in closed:
            await listener.open()
        assert await harness.ended(job) == ["completed"]
        for process in (relay, worker):
            process.must_be_alive()


async def test_relay_and_worker_can_start_before_the_migration(
    empty_database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with stage(empty_database_url, redis_url, tmp_path) as scene:
        relay, worker = await scene.relay("relay"), await scene.worker("worker")
        await relay.says("`beacon-runner migrate`")
        await migrate.upgrade(empty_database_url)
        async with LoopHarness.on(empty_database_url, redis_url) as harness:
            (job,) = await harness.submit()
            assert await harness.ended(job) == ["completed"]
        for process in (relay, worker):
            process.must_be_alive()
