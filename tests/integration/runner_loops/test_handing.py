"""What a pool does with messages that are handed to it: work on them, or return them at once."""

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from beacon_config.tiers import PoolConfig
from beacon_lifecycle import ManualClock
from beacon_runner.domain.messages import Message
from beacon_runner.domain.verdict import RetryPolicy
from beacon_runner.redis_queue.keys import hand_channel
from beacon_runner.redis_queue.redis_queue import rest_of
from beacon_runner.wiring.loops import build_worker
from beacon_runner.worker.heartbeat import Heartbeat
from beacon_runner.worker.job_runner import JobRunner
from beacon_runner.worker.pool import Intake, Pool
from beacon_runner.worker.recorder import Recorder
from tests.fixtures.waiting import until
from tests.integration.runner_loops.bed import ALL_CLASSES, LoopBed, ScriptedExecutor, completed
from tests.integration.runner_loops.processes import stage


async def waits(bed: LoopBed, pools: int = 1) -> None:
    async def so_many() -> bool:
        return bool(await bed.transport.redis.zcard(bed.transport.layout.idle) == pools)

    await until(so_many, f"{pools} pools wait for a message")


def text_of(message: Message) -> str:
    return f"all\n{message.id}:{rest_of(message)}"


class Watched:
    """The queue, and what was claimed from it."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.claimed: list[Message] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def claim(self, *arguments: Any) -> Sequence[Message]:
        found: Sequence[Message] = await self._queue.claim(*arguments)
        self.claimed += found
        return found


async def test_an_idle_worker_is_handed_job_after_job(bed: LoopBed) -> None:
    watched = Watched(bed.queue)
    bed.transport.queue = watched  # type: ignore[assignment]
    async with bed.worker(ScriptedExecutor(at_once=lambda *_: completed())):
        for _ in range(3):
            await waits(bed)
            (job,) = await bed.queued()
            assert await bed.ended(job) == ["completed"]
    assert watched.claimed == []
    await bed.nothing_left()


async def test_a_worker_without_a_free_slot_returns_what_it_is_handed(bed: LoopBed) -> None:
    """Its claim for more was on its way when it was handed the last one."""
    bed.config.pools["all"] = PoolConfig(slots=1, classes=ALL_CLASSES)
    executor = ScriptedExecutor()
    async with bed.worker(executor):
        first, second = await bed.queued(2)
        (running, *_) = await executor.started(1)
        worker = (await bed.job(running.job.id))["worker"]
        (left,) = await bed.queue.claim(ALL_CLASSES, 1, worker)
        await bed.transport.redis.publish(hand_channel(worker), text_of(left))

        async def back() -> bool:
            return bool(await bed.transport.redis.hget("jobs:waiting", left.job_class))

        await until(back, "it is back in its lane")
        assert len(executor.runs) == 1
        running.done(completed())
        (_, other) = await executor.started(2)
        other.done(completed())
        assert await bed.ended(first, second) == ["completed", "completed"]
    await bed.nothing_left()


async def test_a_worker_that_stops_keeps_nothing_it_was_handed(database_url: str, redis_url: str) -> None:
    """The clock stands still, so that it claims nothing by itself."""
    async with LoopBed.on(database_url, redis_url, clock=ManualClock()) as bed:
        worker, listener = build_worker(bed.transport, bed.claims, ScriptedExecutor())
        await worker.start()
        await listener.start()
        await waits(bed)
        (idle,) = await bed.transport.redis.zrange(bed.transport.layout.idle, 0, -1)
        await listener.stop()
        (job,) = await bed.queued()
        (message,) = await bed.queue.claim(ALL_CLASSES, 1, str(idle).partition("\n")[0])
        worker.hand(text_of(message))  # type: ignore[attr-defined]
        await worker.stop()
        assert [found.job for found in await bed.queue.claim(ALL_CLASSES, 1, "another")] == [job]


async def test_a_pool_that_stood_still_robs_nobody(database_url: str, redis_url: str) -> None:
    clock = ManualClock()
    async with LoopBed.on(database_url, redis_url, clock=clock) as bed, pool_on(bed) as (pool, executor):
        await pool.run_once()
        await clock.advance(bed.config.runner.lease_s * 0.6)
        (job,) = await bed.queued()
        (message,) = await bed.queue.claim(ALL_CLASSES, 1, "w1")
        pool.hand(message)
        await pool.run_once()
        assert executor.runs == []
        assert [found.job for found in await bed.queue.claim(ALL_CLASSES, 1, "w2")] == [job]


async def test_a_claim_after_standing_still_does_not_make_what_was_handed_fresh(
    database_url: str, redis_url: str
) -> None:
    clock = ManualClock()
    async with LoopBed.on(database_url, redis_url, clock=clock) as bed, pool_on(bed) as (pool, executor):
        await pool.run_once()
        await bed.queued()
        (message,) = await bed.queue.claim(ALL_CLASSES, 1, "w1")  # handed to the pool, which hears it late
        await clock.advance(bed.config.runner.lease_s * 0.6)
        await pool.run_once()
        pool.hand(message)
        await pool.run_once()
        assert executor.runs == []


async def test_a_job_that_comes_after_an_idle_worker_was_killed_does_not_wait_for_its_lease(
    bed: LoopBed, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with stage(database_url, redis_url, tmp_path) as scene:
        first, second = await scene.worker("first"), await scene.worker("second")
        await waits(bed, pools=6)
        for victim in (first, second):
            victim.send(signal.SIGKILL)
            await victim.exited()
            if victim is first:
                (job,) = await bed.queued()
                assert await bed.ended(job) == ["completed"]
                assert (await bed.job(job))["deliveries"] == 1
        (job,) = await bed.queued()
        assert [found.job for found in await bed.queue.claim(ALL_CLASSES, 1, "another")] == [job]


@asynccontextmanager
async def pool_on(
    bed: LoopBed, *, slots: int = 50, claims: Any = None
) -> AsyncIterator[tuple[Pool, ScriptedExecutor]]:
    transport, executor, store = bed.transport, ScriptedExecutor(), claims or bed.claims
    bench = JobRunner(
        executor,
        Recorder(store, transport.clock, transport.metrics),
        transport.clock,
        policy=RetryPolicy(),
        parallelism=1,
    )
    heartbeat = Heartbeat(
        transport.address,
        transport.layout,
        "w1",
        transport.clock,
        transport.metrics,
        lease_s=bed.config.runner.lease_s,
        every_s=1,
    )
    intake = Intake(
        bed.queue, store, bench, heartbeat, "w1", transport.clock, transport.metrics, lambda: None
    )
    yield Pool("all", PoolConfig(slots=slots, classes=ALL_CLASSES), intake), executor
