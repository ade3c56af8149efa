"""Expired leases and due retries return to their lanes."""

from beacon_lifecycle import RunResult
from beacon_runner.maintenance.reaper import LeaseReaper
from beacon_runner.maintenance.retries import RetryHandler
from beacon_runner.redis_queue import RedisQueue
from tests.fixtures.waiting import until
from tests.integration.runner_loops.harness import ALL_CLASSES, LoopHarness, ScriptedExecutor, failed

MAKE_DUE = "UPDATE outbox SET not_before = now() - interval '1 second' WHERE topic = 'jobs:retry'"


async def test_the_reaper_returns_messages_of_a_dead_worker(harness: LoopHarness) -> None:
    (job,) = await harness.queued()
    hasty = RedisQueue(harness.transport.redis, harness.transport.layout, lease_s=0.001)
    await hasty.claim(ALL_CLASSES, 1, "dead")
    reaper = LeaseReaper(harness.queue, harness.transport.metrics)

    async def something() -> RunResult | None:
        result = await reaper.run_once()
        return result if result.count else None

    assert await until(something, "the lease has ended") == RunResult(1)
    assert [message.job for message in await harness.queue.claim(ALL_CLASSES, 1, "w")] == [job]
    assert harness.transport.metrics.reclaimed._value.get() == 1


async def test_a_failed_job_waits_in_the_retry_set_until_it_is_due(harness: LoopHarness) -> None:
    (job,) = await harness.queued()
    async with harness.worker(ScriptedExecutor(at_once=lambda *_: failed())):
        await until(lambda: _outbox(harness), "the retry is in the outbox")
    await harness.database.execute(MAKE_DUE)
    await harness.publish()
    assert (await harness.transport.queue_admin.stats()).retry == 1
    handler = RetryHandler(harness.queue, harness.transport.metrics)
    assert await handler.run_once() == RunResult(1)
    assert await handler.run_once() == RunResult(0)
    (message,) = await harness.queue.claim(ALL_CLASSES, 5, "w")
    assert (message.job, message.generation, message.attempt) == (job, 2, 2)


async def _outbox(harness: LoopHarness) -> int:
    return (await harness.outbox.lag()).entries
