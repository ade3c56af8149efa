"""Redis behind Sentinel: the primary dies under load, the replica takes over, no job is lost."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.fixtures.sentinel import SentinelGroup, sentinels
from tests.fixtures.waiting import until
from tests.integration.runner_loops.harness import LoopHarness
from tests.integration.runner_loops.processes import ProcessHarness, process_harness


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[SentinelGroup]:
    folder = tmp_path / "redis"
    folder.mkdir()
    with sentinels(folder) as running:
        yield running


@pytest.fixture
async def harness(database_url: str, watched: SentinelGroup) -> AsyncIterator[LoopHarness]:
    async with LoopHarness.on(database_url, watched.url) as made:
        yield made


@pytest.fixture
async def processes(
    database_url: str, watched: SentinelGroup, tmp_path: Path
) -> AsyncIterator[ProcessHarness]:
    async with process_harness(database_url, watched.url, tmp_path) as made:
        await made.relay("relay")
        yield made


async def published(harness: LoopHarness) -> None:
    async def empty() -> bool:
        return (await harness.outbox.lag()).entries == 0

    await until(empty, "all messages are in Redis")


async def test_every_job_completes_once_after_a_failover(
    harness: LoopHarness, processes: ProcessHarness, watched: SentinelGroup
) -> None:
    """Replication is asynchronous, so the last writes are lost and restored from Postgres."""
    await processes.worker("one")
    await processes.worker("two")
    done = await harness.submit(20)
    assert await harness.ended(*done) == ["completed"] * 20
    await processes.gpu.hold()
    jobs = await harness.submit(20)
    await processes.gpu.wait_running(1)  # this model runs one at a time
    watched.cut_replication()
    jobs += await harness.submit(20)
    await published(harness)
    watched.kill_primary()
    jobs += await harness.submit(20)
    await processes.gpu.release()
    assert await harness.ended(*jobs) == ["completed"] * 60
    ledger = await processes.gpu.ledger()
    assert len({call["request_id"] for call in ledger}) == len(ledger) == 80
    await harness.nothing_left()
    for process in processes.processes:
        process.must_be_alive()
