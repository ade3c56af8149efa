"""Redis can be lost at any time: what is live comes back from Postgres, by itself and soon."""

from dataclasses import replace

import pytest

from beacon_config.tiers import LaneStrategy
from beacon_contracts.ids import JobId, UserId, new_uuid
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass, Tier
from beacon_lifecycle import ManualClock
from beacon_runner.maintenance.reconciler import Reconciler
from beacon_runner.postgres.pauses import PostgresPauses
from tests.fixtures.waiting import until
from tests.integration.runner_loops.bed import (
    ALL_CLASSES,
    LoopBed,
    ScriptedExecutor,
    completed,
    failed,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def reconciler(bed: LoopBed, clock: ManualClock) -> Reconciler:
    """One that has seen everything in order."""
    made = Reconciler(bed.live, bed.queue, bed.mirror, bed.transport.metrics, clock, page=2)
    await sweep(made)
    return made


async def sweep(reconciler: Reconciler) -> int:
    total = 0
    while (result := await reconciler.run_once()).more:
        total += result.count
    return total + result.count


async def flush(bed: LoopBed) -> None:
    await bed.transport.redis.flushdb()


async def test_redis_that_came_back_empty_is_filled_again(bed: LoopBed, reconciler: Reconciler) -> None:
    """Incident 17: Redis restarted empty, which was not detected: the jobs stayed queued forever."""
    jobs = await bed.queued(7)
    await flush(bed)
    assert await sweep(reconciler) == 7
    await bed.publish()
    claimed = await bed.queue.claim(ALL_CLASSES, 100, "w")
    assert sorted(message.job for message in claimed) == sorted(jobs)
    assert await bed.queue.epoch() is not None
    assert await sweep(reconciler) == 0


@pytest.mark.parametrize("strategy", ["single", "hash"])
async def test_who_shares_a_lane_comes_back_in_the_order_of_arrival(
    bed: LoopBed, reconciler: Reconciler, strategy: LaneStrategy
) -> None:
    """Users in turn; one whose job was tried again has waited since then, and not since it was submitted."""
    lanes = bed.config.lanes.model_copy(update={"strategy": strategy, "count": 1})
    shared = replace(bed, config=bed.config.model_copy(update={"lanes": lanes}))
    users = [UserId(new_uuid()) for _ in range(4)]
    jobs = [(await shared.queued(user=users[number % 4]))[0] for number in range(12)]
    await bed.database.execute("UPDATE jobs SET queued_at = now() WHERE id = $1", jobs[5])
    await flush(bed)
    assert await sweep(reconciler) == 12
    await bed.publish()
    (lane,) = (await bed.transport.queue_admin.stats()).lanes
    assert lane.pending == 12
    claimed = await bed.queue.claim(ALL_CLASSES, 100, "w")
    assert [message.job for message in claimed] == [*jobs[:5], *jobs[6:], jobs[5]]


async def test_a_rebuild_that_was_cut_off_starts_over(bed: LoopBed, reconciler: Reconciler) -> None:
    await bed.queued(5)
    await flush(bed)
    assert (await reconciler.run_once()).more
    another = Reconciler(bed.live, bed.queue, bed.mirror, bed.transport.metrics, ManualClock(), page=2)
    assert await sweep(another) == 5
    assert await sweep(reconciler) == 3
    await bed.publish()
    assert len(await bed.queue.claim(ALL_CLASSES, 100, "w")) == 5


async def test_waiting_retries_and_paid_skips_come_back_as_such(bed: LoopBed, reconciler: Reconciler) -> None:
    ordinary, retried, paid = await bed.queued(3)
    async with bed.worker(
        ScriptedExecutor(at_once=lambda job, _: completed() if job.id != retried else failed())
    ):
        await until(lambda: _state(bed, retried, JobState.RETRYING), "one waits for its retry")
    await bed.publish()
    await bed.database.execute("UPDATE jobs SET state = 'queued', finished_at = NULL WHERE id = $1", ordinary)
    await bed.database.execute(
        "UPDATE jobs SET state = 'queued', finished_at = NULL, front = true WHERE id = $1", paid
    )
    await flush(bed)
    assert await sweep(reconciler) == 3
    await bed.publish()
    stats = await bed.transport.queue_admin.stats()
    assert (sum(stats.waiting.values()), sum(stats.front.values()), stats.retry) == (2, 1, 1)


async def test_what_a_living_worker_has_is_not_given_to_another(
    bed: LoopBed, reconciler: Reconciler, clock: ManualClock
) -> None:
    executor = ScriptedExecutor()
    (job,) = await bed.queued()
    async with bed.worker(executor):
        (run,) = await executor.started(1)
        await flush(bed)
        assert await sweep(reconciler) == 0
        await until(lambda: _leased(bed), "its heartbeat brought the lease back")
        await clock.advance(100)
        assert await sweep(reconciler) == 0
        run.done(completed())
        assert await bed.ended(job) == ["completed"]
        await bed.nothing_left()
    assert (await bed.job(job))["deliveries"] == 1


async def test_what_a_dead_worker_had_comes_back_after_its_lease(
    bed: LoopBed, reconciler: Reconciler, clock: ManualClock
) -> None:
    (job,) = await bed.queued()
    await bed.claims.claim(await bed.queue.claim(ALL_CLASSES, 1, "dead"), "dead")
    await flush(bed)
    assert await sweep(reconciler) == 0
    await clock.advance(bed.config.runner.lease_s)
    assert await sweep(reconciler) == 1
    await bed.publish()
    assert [message.job for message in await bed.queue.claim(ALL_CLASSES, 1, "w")] == [job]


async def test_single_losses_are_found_by_the_routine_sweep(
    bed: LoopBed, reconciler: Reconciler, clock: ManualClock
) -> None:
    jobs = await bed.queued(3)
    lost = (await bed.queue.claim(ALL_CLASSES, 1, "w"))[0]
    await bed.queue.ack([lost])
    assert await sweep(reconciler) == 0
    await clock.advance(60)
    assert await sweep(reconciler) == 1
    await bed.publish()
    assert {message.job for message in await bed.queue.claim(ALL_CLASSES, 9, "w")} == set(jobs)


async def test_dead_letters_are_mirrored_again(bed: LoopBed, reconciler: Reconciler) -> None:
    (job,) = await bed.queued()
    async with bed.worker(ScriptedExecutor(at_once=lambda *_: failed(retryable=False))):
        assert await bed.ended(job) == ["failed"]
    await bed.publish()
    await flush(bed)
    await sweep(reconciler)
    await bed.publish()
    assert (await bed.transport.queue_admin.stats()).dead == 1


async def test_the_mirror_of_dead_letters_is_compared_with_the_table(
    bed: LoopBed, reconciler: Reconciler, clock: ManualClock
) -> None:
    """A purge whose word did not reach Redis, and a letter that Redis lost."""
    jobs = await bed.queued(5)
    async with bed.worker(ScriptedExecutor(at_once=lambda *_: failed(retryable=False))):
        await bed.ended(*jobs)
    await bed.publish()
    purged, forgotten, *_ = jobs
    await bed.database.execute("DELETE FROM dead_letters WHERE job_id = $1", purged)
    await bed.transport.queue_admin.forget_dead([forgotten])
    await clock.advance(60)
    await sweep(reconciler)
    await bed.publish()
    assert set(await bed.transport.queue_admin.dead()) == set(jobs) - {purged}
    assert (await bed.transport.queue_admin.stats()).dead == 4


async def test_a_paused_class_stays_paused_when_redis_was_emptied(
    bed: LoopBed, reconciler: Reconciler
) -> None:
    (job,) = await bed.queued()
    await bed.pauses.pause(JobClass.LOW)
    await flush(bed)
    await sweep(reconciler)
    await bed.publish()
    assert await bed.queue.claim(ALL_CLASSES, 1, "w") == []
    await bed.pauses.resume(JobClass.LOW)
    await flush(bed)
    await sweep(reconciler)
    await bed.publish()
    assert [message.job for message in await bed.queue.claim(ALL_CLASSES, 1, "w")] == [job]


async def test_nothing_is_claimed_from_an_emptied_redis_before_its_pauses_are_back(
    bed: LoopBed, reconciler: Reconciler
) -> None:
    """Between FLUSHALL and the next look at it, new messages of a paused class were handed out."""
    await bed.pauses.pause(JobClass.LOW)
    await bed.transport.queue_admin.pause(JobClass.LOW)
    await flush(bed)
    await bed.queued(tier=Tier.FREE)
    (open_one,) = await bed.queued(tier=Tier.ADMIN)
    assert await bed.queue.claim(ALL_CLASSES, 9, "w") == []
    executor = ScriptedExecutor(at_once=lambda *_: completed())
    async with bed.worker(executor):
        await sweep(reconciler)
        assert await bed.ended(open_one) == [
            "completed"
        ]  # though it was notified while claims returned nothing
    assert [run.job.id for run in executor.runs] == [open_one]


async def test_a_pause_in_the_middle_of_a_comparison_is_not_undone(bed: LoopBed) -> None:
    class Overtaken(PostgresPauses):
        """An operator pauses a class right after the paused classes were read."""

        async def paused(self) -> frozenset[JobClass]:
            found = await super().paused()
            await self.pause(JobClass.HIGH)
            await bed.transport.queue_admin.pause(JobClass.HIGH)
            return found

    await replace(bed.mirror, pauses=Overtaken(bed.database)).restore_pauses()
    assert await bed.transport.queue_admin.paused() == {JobClass.HIGH}


async def test_a_pause_that_redis_did_not_hear_of_is_told_at_the_next_sweep(
    bed: LoopBed, reconciler: Reconciler, clock: ManualClock
) -> None:
    await bed.pauses.pause(JobClass.HIGH)
    await bed.transport.queue_admin.pause(JobClass.LOW)  # and this resume was not heard
    await clock.advance(60)
    await sweep(reconciler)
    assert (await bed.transport.queue_admin.stats()).paused == {JobClass.HIGH}


async def test_a_promotion_or_a_payment_that_redis_lost_is_made_again(
    bed: LoopBed, reconciler: Reconciler, clock: ManualClock
) -> None:
    promoted, paid, ordinary = await bed.queued(3)
    await bed.database.execute("UPDATE jobs SET class = 'high' WHERE id = $1", promoted)
    await bed.database.execute("UPDATE jobs SET front = true WHERE id = $1", paid)
    await clock.advance(60)
    assert await sweep(reconciler) == 2
    await bed.publish()
    assert [message.job for message in await bed.queue.claim(ALL_CLASSES, 9, "w")] == [
        paid,
        promoted,
        ordinary,
    ]
    assert await sweep(reconciler) == 0


async def test_a_lane_that_somebody_deleted_is_filled_again(
    bed: LoopBed, reconciler: Reconciler, clock: ManualClock
) -> None:
    jobs = await bed.queued(3)
    (lane,) = [load.lane for load in (await bed.transport.queue_admin.stats()).lanes]
    await bed.transport.redis.delete(f"jobs:low:{lane}")
    await clock.advance(60)
    await sweep(reconciler)
    assert {message.job for message in await bed.queue.claim(ALL_CLASSES, 9, "w")} == set(jobs)
    assert await bed.transport.queue_admin.reset_lanes() == []
    assert bed.transport.metrics.queue_repaired._value.get() == 3


async def _state(bed: LoopBed, job: JobId, state: JobState) -> bool:
    return bool((await bed.job(job))["state"] == state)


async def _leased(bed: LoopBed) -> bool:
    return (await bed.transport.queue_admin.stats()).leased == 1
