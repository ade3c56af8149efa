"""Leases that ended and retries that came due find their way back into a lane."""

from beacon_lifecycle import RunResult
from beacon_runner.maintenance.reaper import LeaseReaper
from beacon_runner.maintenance.retries import RetryHandler
from beacon_runner.redis_queue import RedisQueue
from tests.fixtures.waiting import until
from tests.integration.runner_loops.bed import ALL_CLASSES, LoopBed, ScriptedExecutor, failed

MAKE_DUE = "UPDATE outbox SET not_before = now() - interval '1 second' WHERE topic = 'jobs:retry'"


async def test_the_reaper_returns_what_a_dead_worker_held(bed: LoopBed) -> None:
    (job,) = await bed.queued()
    hasty = RedisQueue(bed.transport.redis, bed.transport.layout, lease_s=0.001)
    await hasty.claim(ALL_CLASSES, 1, "dead")
    reaper = LeaseReaper(bed.queue, bed.transport.metrics)

    async def something() -> RunResult | None:
        result = await reaper.run_once()
        return result if result.count else None

    assert await until(something, "the lease has ended") == RunResult(1)
    assert [message.job for message in await bed.queue.claim(ALL_CLASSES, 1, "w")] == [job]
    assert bed.transport.metrics.reclaimed._value.get() == 1


async def test_a_failed_job_waits_in_the_retry_set_until_it_is_due(bed: LoopBed) -> None:
    (job,) = await bed.queued()
    async with bed.worker(ScriptedExecutor(at_once=lambda *_: failed())):
        await until(lambda: _outbox(bed), "the retry is in the outbox")
    await bed.database.execute(MAKE_DUE)
    await bed.publish()
    assert (await bed.transport.queue_admin.stats()).retry == 1
    handler = RetryHandler(bed.queue, bed.transport.metrics)
    assert await handler.run_once() == RunResult(1)
    assert await handler.run_once() == RunResult(0)
    (message,) = await bed.queue.claim(ALL_CLASSES, 5, "w")
    assert (message.job, message.generation, message.attempt) == (job, 2, 2)


async def _outbox(bed: LoopBed) -> int:
    return (await bed.outbox.lag()).entries
