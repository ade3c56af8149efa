"""Redis can be lost at any time: live jobs are restored from Postgres."""

from dataclasses import replace

import pytest

from beacon_config.queues import LaneStrategy
from beacon_contracts.ids import JobId, UserId, new_uuid
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import ManualClock
from beacon_runner.maintenance.reconciler import Reconciler
from beacon_runner.postgres.jobs.pauses import PostgresPauses
from tests.fixtures.waiting import until
from tests.integration.runner_loops.harness import (
    ALL_CLASSES,
    LoopHarness,
    ScriptedExecutor,
    completed,
    failed,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def reconciler(harness: LoopHarness, clock: ManualClock) -> Reconciler:
    """A reconciler after a first complete sweep."""
    made = Reconciler(harness.live, harness.queue, harness.mirror, harness.transport.metrics, clock, page=2)
    await sweep(made)
    return made


async def sweep(reconciler: Reconciler) -> int:
    total = 0
    while (result := await reconciler.run_once()).more:
        total += result.count
    return total + result.count


async def flush(harness: LoopHarness) -> None:
    await harness.transport.redis.flushdb()


async def test_an_emptied_redis_is_rebuilt(harness: LoopHarness, reconciler: Reconciler) -> None:
    """Incident 17: Redis restarted empty, which was not detected: the jobs stayed queued forever."""
    jobs = await harness.queued(7)
    await flush(harness)
    assert await sweep(reconciler) == 7
    await harness.publish()
    claimed = await harness.queue.claim(ALL_CLASSES, 100, "w")
    assert sorted(message.job for message in claimed) == sorted(jobs)
    assert await harness.queue.epoch() is not None
    assert await sweep(reconciler) == 0


@pytest.mark.parametrize("strategy", ["single", "hash"])
async def test_a_rebuilt_lane_is_in_the_order_of_arrival(
    harness: LoopHarness, reconciler: Reconciler, strategy: LaneStrategy
) -> None:
    """Users round-robin; a retried job waits since its retry, not since its submission."""
    lanes = harness.config.lanes.model_copy(update={"strategy": strategy, "count": 1})
    shared = replace(harness, config=harness.config.model_copy(update={"lanes": lanes}))
    users = [UserId(new_uuid()) for _ in range(4)]
    jobs = [(await shared.queued(user=users[number % 4]))[0] for number in range(12)]
    await harness.database.execute("UPDATE jobs SET queued_at = now() WHERE id = $1", jobs[5])
    await flush(harness)
    assert await sweep(reconciler) == 12
    await harness.publish()
    (lane,) = (await harness.transport.queue_admin.stats()).lanes
    assert lane.pending == 12
    claimed = await harness.queue.claim(ALL_CLASSES, 100, "w")
    assert [message.job for message in claimed] == [*jobs[:5], *jobs[6:], jobs[5]]


async def test_an_interrupted_rebuild_starts_again(harness: LoopHarness, reconciler: Reconciler) -> None:
    await harness.queued(5)
    await flush(harness)
    assert (await reconciler.run_once()).more
    another = Reconciler(
        harness.live, harness.queue, harness.mirror, harness.transport.metrics, ManualClock(), page=2
    )
    assert await sweep(another) == 5
    assert await sweep(reconciler) == 3
    await harness.publish()
    assert len(await harness.queue.claim(ALL_CLASSES, 100, "w")) == 5


async def test_retries_and_paid_skips_are_restored_in_their_places(
    harness: LoopHarness, reconciler: Reconciler
) -> None:
    ordinary, retried, paid = await harness.queued(3)
    async with harness.worker(
        ScriptedExecutor(at_once=lambda job, _: completed() if job.id != retried else failed())
    ):
        await until(lambda: _state(harness, retried, JobState.RETRYING), "one waits for its retry")
    await harness.publish()
    await harness.database.execute(
        "UPDATE jobs SET state = 'queued', finished_at = NULL WHERE id = $1", ordinary
    )
    await harness.database.execute(
        "UPDATE jobs SET state = 'queued', finished_at = NULL, front = true WHERE id = $1", paid
    )
    await flush(harness)
    assert await sweep(reconciler) == 3
    await harness.publish()
    stats = await harness.transport.queue_admin.stats()
    assert (sum(stats.waiting.values()), sum(stats.front.values()), stats.retry) == (2, 1, 1)


async def test_messages_of_a_live_worker_are_not_republished(
    harness: LoopHarness, reconciler: Reconciler, clock: ManualClock
) -> None:
    executor = ScriptedExecutor()
    (job,) = await harness.queued()
    async with harness.worker(executor):
        (run,) = await executor.started(1)
        await flush(harness)
        assert await sweep(reconciler) == 0
        await until(lambda: _leased(harness), "its heartbeat brought the lease back")
        await clock.advance(100)
        assert await sweep(reconciler) == 0
        run.done(completed())
        assert await harness.ended(job) == ["completed"]
        await harness.nothing_left()
    assert (await harness.job(job))["deliveries"] == 1


async def test_messages_of_a_dead_worker_return_after_the_lease(
    harness: LoopHarness, reconciler: Reconciler, clock: ManualClock
) -> None:
    (job,) = await harness.queued()
    await harness.claims.claim(await harness.queue.claim(ALL_CLASSES, 1, "dead"), "dead")
    await flush(harness)
    assert await sweep(reconciler) == 0
    await clock.advance(harness.config.runner.lease_s)
    assert await sweep(reconciler) == 1
    await harness.publish()
    assert [message.job for message in await harness.queue.claim(ALL_CLASSES, 1, "w")] == [job]


async def test_single_losses_are_found_by_the_regular_sweep(
    harness: LoopHarness, reconciler: Reconciler, clock: ManualClock
) -> None:
    jobs = await harness.queued(3)
    lost = (await harness.queue.claim(ALL_CLASSES, 1, "w"))[0]
    await harness.queue.ack([lost])
    assert await sweep(reconciler) == 0
    await clock.advance(60)
    assert await sweep(reconciler) == 1
    await harness.publish()
    assert {message.job for message in await harness.queue.claim(ALL_CLASSES, 9, "w")} == set(jobs)


async def test_dead_letters_are_mirrored_again(harness: LoopHarness, reconciler: Reconciler) -> None:
    (job,) = await harness.queued()
    async with harness.worker(ScriptedExecutor(at_once=lambda *_: failed(retryable=False))):
        assert await harness.ended(job) == ["failed"]
    await harness.publish()
    await flush(harness)
    await sweep(reconciler)
    await harness.publish()
    assert (await harness.transport.queue_admin.stats()).dead == 1


async def test_the_mirror_of_dead_letters_is_compared_with_the_table(
    harness: LoopHarness, reconciler: Reconciler, clock: ManualClock
) -> None:
    """A purge that did not reach Redis, and a dead letter that Redis lost."""
    jobs = await harness.queued(5)
    async with harness.worker(ScriptedExecutor(at_once=lambda *_: failed(retryable=False))):
        await harness.ended(*jobs)
    await harness.publish()
    purged, forgotten, *_ = jobs
    await harness.database.execute("DELETE FROM dead_letters WHERE job_id = $1", purged)
    await harness.transport.queue_admin.forget_dead([forgotten])
    await clock.advance(60)
    await sweep(reconciler)
    await harness.publish()
    assert set(await harness.transport.queue_admin.dead()) == set(jobs) - {purged}
    assert (await harness.transport.queue_admin.stats()).dead == 4


async def test_a_paused_class_stays_paused_when_redis_was_emptied(
    harness: LoopHarness, reconciler: Reconciler
) -> None:
    (job,) = await harness.queued()
    await harness.pauses.pause(JobClass.LOW)
    await flush(harness)
    await sweep(reconciler)
    await harness.publish()
    assert await harness.queue.claim(ALL_CLASSES, 1, "w") == []
    await harness.pauses.resume(JobClass.LOW)
    await flush(harness)
    await sweep(reconciler)
    await harness.publish()
    assert [message.job for message in await harness.queue.claim(ALL_CLASSES, 1, "w")] == [job]


async def test_nothing_is_claimed_before_pauses_are_restored(
    harness: LoopHarness, reconciler: Reconciler
) -> None:
    """Messages of a paused class were claimed between FLUSHALL and the next sweep."""
    await harness.pauses.pause(JobClass.LOW)
    await harness.transport.queue_admin.pause(JobClass.LOW)
    await flush(harness)
    await harness.queued(tier="free")
    (open_one,) = await harness.queued(tier="admin")
    assert await harness.queue.claim(ALL_CLASSES, 9, "w") == []
    executor = ScriptedExecutor(at_once=lambda *_: completed())
    async with harness.worker(executor):
        await sweep(reconciler)
        assert await harness.ended(open_one) == [
            "completed"
        ]  # though it was notified while claims returned nothing
    assert [run.job.id for run in executor.runs] == [open_one]


async def test_a_pause_during_a_comparison_is_kept(harness: LoopHarness) -> None:
    class Overtaken(PostgresPauses):
        """An operator pauses a class right after the paused classes were read."""

        async def paused(self) -> frozenset[JobClass]:
            found = await super().paused()
            await self.pause(JobClass.HIGH)
            await harness.transport.queue_admin.pause(JobClass.HIGH)
            return found

    await replace(harness.mirror, pauses=Overtaken(harness.database)).restore_pauses()
    assert await harness.transport.queue_admin.paused() == {JobClass.HIGH}


async def test_a_pause_missing_in_redis_is_restored_at_the_next_sweep(
    harness: LoopHarness, reconciler: Reconciler, clock: ManualClock
) -> None:
    await harness.pauses.pause(JobClass.HIGH)
    await harness.transport.queue_admin.pause(JobClass.LOW)  # and this resume was not heard
    await clock.advance(60)
    await sweep(reconciler)
    assert (await harness.transport.queue_admin.stats()).paused == {JobClass.HIGH}


async def test_a_lost_promotion_or_payment_is_applied_again(
    harness: LoopHarness, reconciler: Reconciler, clock: ManualClock
) -> None:
    promoted, paid, ordinary = await harness.queued(3)
    await harness.database.execute("UPDATE jobs SET class = 'high' WHERE id = $1", promoted)
    await harness.database.execute("UPDATE jobs SET front = true WHERE id = $1", paid)
    await clock.advance(60)
    assert await sweep(reconciler) == 2
    await harness.publish()
    assert [message.job for message in await harness.queue.claim(ALL_CLASSES, 9, "w")] == [
        paid,
        promoted,
        ordinary,
    ]
    assert await sweep(reconciler) == 0


async def test_a_deleted_lane_is_restored(
    harness: LoopHarness, reconciler: Reconciler, clock: ManualClock
) -> None:
    jobs = await harness.queued(3)
    (lane,) = [load.lane for load in (await harness.transport.queue_admin.stats()).lanes]
    await harness.transport.redis.delete(f"jobs:low:{lane}")
    await clock.advance(60)
    await sweep(reconciler)
    assert {message.job for message in await harness.queue.claim(ALL_CLASSES, 9, "w")} == set(jobs)
    assert await harness.transport.queue_admin.reset_lanes() == []
    assert harness.transport.metrics.queue_repaired._value.get() == 3


async def _state(harness: LoopHarness, job: JobId, state: JobState) -> bool:
    return bool((await harness.job(job))["state"] == state)


async def _leased(harness: LoopHarness) -> bool:
    return (await harness.transport.queue_admin.stats()).leased == 1
