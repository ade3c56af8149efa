"""What holds a slot of a worker, and how many jobs one process has in flight."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from beacon_config.queues import PoolConfig
from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.execution.stage_result import Deferred, StageReport
from tests.fixtures.waiting import until
from tests.integration.runner_loops.harness import (
    ALL_CLASSES,
    LoopHarness,
    ScriptedExecutor,
    completed,
)

TWO_SLOTS = {"all": PoolConfig(slots=2, classes=ALL_CLASSES)}
STRICT = {
    "high": PoolConfig(slots=5, classes=[JobClass.HIGH], strict=True),
    "medium": PoolConfig(slots=5, classes=[JobClass.MEDIUM, JobClass.HIGH], strict=True),
    "low": PoolConfig(slots=3, classes=[JobClass.LOW, JobClass.HIGH], strict=True),
}
MANY = 1_500  # more than one script of the heartbeat and one write of the recorder


@asynccontextmanager
async def harness_with(database_url: str, redis_url: str, **changes: Any) -> AsyncIterator[LoopHarness]:
    async with LoopHarness.on(database_url, redis_url, **changes) as harness:
        yield harness


async def test_a_job_that_waits_at_a_router_holds_no_slot(database_url: str, redis_url: str) -> None:
    executor = ScriptedExecutor()
    async with harness_with(database_url, redis_url, pools=TWO_SLOTS) as harness:
        jobs = await harness.queued(20)
        async with harness.worker(executor):
            for run in await executor.started(20):
                run.done(completed())
            assert await harness.ended(*jobs) == ["completed"] * 20


async def test_a_job_holds_its_slot_until_a_router_has_accepted_it(database_url: str, redis_url: str) -> None:
    executor = ScriptedExecutor(accepts=False)
    async with harness_with(database_url, redis_url, pools=TWO_SLOTS) as harness:
        await harness.queued(5)
        async with harness.worker(executor):
            first, second = await executor.started(2)
            first.accepted()
            assert len(await executor.started(3)) == 3
            second.done(completed())
            assert len(await executor.started(4)) == 4
            await until(partial(_leased, harness, 3), "the others have no slot")
            assert len(executor.runs) == 4


async def test_strict_pools_hold_a_slot_for_the_life_of_a_job(database_url: str, redis_url: str) -> None:
    """Seed 004: 5 high, 5 medium, 3 low; a full class takes no slot of another one."""
    executor = ScriptedExecutor()
    async with harness_with(database_url, redis_url, pools=STRICT) as harness:
        for tier in ("admin", "premium", "free"):
            await harness.queued(8, tier=tier)
        async with harness.worker(executor):
            runs = await executor.started(13)
            await until(partial(_leased, harness, 13), "all slots are used")
            tiers = [run.job.tier for run in runs]
            assert [tiers.count(tier) for tier in ("admin", "premium", "free")] == [5, 5, 3]
            next(run for run in runs if run.job.tier == "free").done(completed())
            assert (await executor.started(14))[-1].job.tier == "free"


@pytest.mark.parametrize("newest_first", [True, False])
async def test_two_messages_of_a_job_in_one_claim_are_one_delivery(
    database_url: str, redis_url: str, *, newest_first: bool
) -> None:
    """The worker of the first one died between its record and its acknowledgement."""
    executor = ScriptedExecutor(accepts=False)
    async with harness_with(database_url, redis_url, pools=TWO_SLOTS) as harness:
        (job,) = await harness.queued()
        (old,) = await harness.queue.claim(ALL_CLASSES, 1, "victim")
        (taken,) = await harness.claims.claim([old], "victim")
        await harness.claims.record([StageReport(taken, verdict=Deferred(0.0, "full"))])
        await harness.publish()
        await until(partial(harness.queue.promote_due_retries, 10), "the next message is due")
        (new,) = await harness.queue.claim(ALL_CLASSES, 1, "victim")
        await harness.queue.nack([new, old] if newest_first else [old, new], "victim")
        async with harness.worker(executor):
            (run,) = await executor.started(1)
            assert (await harness.job(job))["deliveries"] == 1
            run.done(completed())
            assert await harness.ended(job) == ["completed"]
            await harness.nothing_left()
            await harness.queued(2)
            assert len(await executor.started(3)) == 3  # both slots are free


async def test_a_user_cannot_fill_a_process(database_url: str, redis_url: str) -> None:
    executor = ScriptedExecutor()
    async with harness_with(database_url, redis_url, in_flight_jobs=64) as harness:
        await harness.queued(100)
        async with harness.worker(executor):
            await executor.started(4)
            others = [(await harness.queued())[0] for _ in range(8)]
            await until(lambda: set(others) <= {run.job.id for run in executor.runs}, "the others start")
            flood = len(executor.runs) - len(others)
            assert 4 <= flood <= 10
            for run in executor.runs[:]:
                run.done(completed())
            await until(lambda: len(executor.runs) > flood + 8, "the flood continues when there is room")


async def test_thousands_in_flight_are_renewed_returned_and_joined(database_url: str, redis_url: str) -> None:
    async with harness_with(
        database_url, redis_url, in_flight_jobs=20 * MANY, in_flight_jobs_per_lane=MANY, heartbeat_s=0.05
    ) as harness:
        jobs = await harness.queued(MANY)
        first, second = ScriptedExecutor(), ScriptedExecutor()
        async with harness.worker(first):
            await first.started(MANY)
            before = await _lease_ends(harness)
            await until(partial(_renewed, harness, before), "every lease is renewed")
        assert all(run.given_up for run in first.runs)
        rows = await harness.database.fetch("SELECT state, deliveries, attempt FROM jobs")
        assert {tuple(row.values()) for row in rows} == {("processing", 0, 1)}
        async with harness.worker(second):
            for run in await second.started(MANY):
                assert run.job.may_be_running
                run.done(completed())
            await until(partial(_ended, harness, jobs), "all are completed")
            await harness.nothing_left()


async def test_a_job_that_waited_at_a_router_is_no_poison_when_its_workers_die(harness: LoopHarness) -> None:
    (job,) = await harness.queued()
    for delivery in range(7):
        executor = ScriptedExecutor(starts=delivery > 3)
        (message,) = await harness.queue.claim(ALL_CLASSES, 1, "dies")
        await harness.queue.nack([message], "dies")
        async with harness.worker(executor):
            await executor.started(1)
            await until(partial(_started, harness, job), "its start is recorded")
            await harness.database.execute(
                "UPDATE jobs SET fence = fence + 1 WHERE id = $1", job
            )  # the worker's last report is refused, as if it had been killed
        assert (await harness.job(job))["deliveries"] <= 2, delivery
    executor = ScriptedExecutor(at_once=lambda *_: completed())
    async with harness.worker(executor):
        assert await harness.ended(job) == ["completed"]


async def _started(harness: LoopHarness, job: JobId) -> bool:
    row = await harness.job(job)
    return row["deliveries"] <= 1 and bool(await harness.executions(job))


async def _leased(harness: LoopHarness, count: int) -> bool:
    return bool((await harness.transport.queue_admin.stats()).leased == count)


async def _lease_ends(harness: LoopHarness) -> dict[str, float]:
    leases: Any = await harness.transport.redis.zrange("jobs:leases", 0, -1, withscores=True)
    return {str(message): float(end) for message, end in leases}


async def _renewed(harness: LoopHarness, before: dict[str, float]) -> bool:
    now = await _lease_ends(harness)
    return len(now) == MANY and all(end > before[message] for message, end in now.items())


async def _ended(harness: LoopHarness, jobs: list[JobId]) -> bool:
    done = await harness.database.fetchval("SELECT count(*) FROM jobs WHERE state = 'completed'")
    return bool(done == len(jobs))
