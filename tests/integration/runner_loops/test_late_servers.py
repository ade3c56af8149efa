"""Processes that start before the servers they need wait for them, say so, and go on."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.fixtures.late_door import late_door
from tests.integration.runner_loops.bed import LoopBed
from tests.integration.runner_loops.processes import Stage, stage


@pytest.fixture
async def scene(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(database_url, redis_url, tmp_path) as made:
        yield made


async def test_relay_and_worker_may_start_before_their_servers(bed: LoopBed, scene: Stage) -> None:
    async with AsyncExitStack() as doors:
        closed = []
        for name in ("DATABASE_URL", "REDIS_URL", "BEACON_ROUTER_URLS"):
            closed.append(await doors.enter_async_context(late_door(scene.environment[name])))
            scene.environment[name] = closed[-1].url
        relay, worker = await scene.relay("relay"), await scene.worker("worker")
        await worker.says("database_not_there_yet")
        await worker.says("heartbeat_failed")
        await relay.says("loop_failed")
        (job,) = await bed.submit()
        for door in closed:
            await door.open()
        assert await bed.ended(job) == ["completed"]
        for process in (relay, worker):
            process.must_be_alive()
