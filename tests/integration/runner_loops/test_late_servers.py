"""Processes that start before their servers wait for them, log it and continue."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from beacon_runner.migrations import migrate
from tests.fixtures.delayed_listener import delayed_listener
from tests.integration.runner_loops.harness import LoopHarness
from tests.integration.runner_loops.processes import ProcessHarness, process_harness


@pytest.fixture
async def processes(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[ProcessHarness]:
    async with process_harness(database_url, redis_url, tmp_path) as made:
        yield made


async def test_relay_and_worker_can_start_before_their_servers(
    harness: LoopHarness, processes: ProcessHarness
) -> None:
    async with AsyncExitStack() as listeners:
        closed = []
        for name in ("DATABASE_URL", "REDIS_URL", "BEACON_ROUTER_URLS"):
            closed.append(await listeners.enter_async_context(delayed_listener(processes.environment[name])))
            processes.environment[name] = closed[-1].url
        relay, worker = await processes.relay("relay"), await processes.worker("worker")
        await worker.logs("database_unavailable_at_start")
        await worker.logs("heartbeat_failed")
        await relay.logs("loop_failed")
        (job,) = await harness.submit()
        for listener in closed:
            await listener.open()
        assert await harness.ended(job) == ["completed"]
        for process in (relay, worker):
            process.must_be_alive()


async def test_relay_and_worker_can_start_before_the_migration(
    empty_database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with process_harness(empty_database_url, redis_url, tmp_path) as processes:
        relay, worker = await processes.relay("relay"), await processes.worker("worker")
        await relay.logs("`beacon-runner migrate`")
        await migrate.upgrade(empty_database_url)
        async with LoopHarness.on(empty_database_url, redis_url) as harness:
            (job,) = await harness.submit()
            assert await harness.ended(job) == ["completed"]
        for process in (relay, worker):
            process.must_be_alive()
