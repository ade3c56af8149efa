"""Leases are renewed by a separate thread; a process that cannot renew them claims nothing."""

import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest
from redis import Redis

from beacon_contracts.tiers import JobClass
from beacon_lifecycle import ManualClock
from beacon_redis import RedisAddress
from beacon_runner.domain.errors import QueueUnavailableError
from beacon_runner.domain.queue.messages import Message
from beacon_runner.redis_queue import RedisQueue
from beacon_runner.redis_queue.lease_renewal import RedisLeaseRenewal
from beacon_runner.worker.heartbeat import Heartbeat
from tests.fixtures.waiting import eventually, until
from tests.integration.runner_loops.harness import ALL_CLASSES, LoopHarness, ScriptedExecutor, completed


@dataclass
class Heart:
    beat: Heartbeat
    clock: ManualClock
    lost: list[str] = field(default_factory=list)


@pytest.fixture
async def heart(harness: LoopHarness) -> AsyncIterator[Heart]:
    clock = ManualClock()
    transport = harness.transport
    lost: list[str] = []

    def on_lost(message_ids: Sequence[str]) -> Sequence[Message]:
        lost.extend(message_ids)
        return ()

    heartbeat = Heartbeat(
        RedisLeaseRenewal(transport.address, transport.layout, "w", lease_s=10),
        clock,
        transport.metrics,
        on_lost=on_lost,
        lease_s=10,
        every_s=3600,
    )
    heartbeat.start()
    yield Heart(heartbeat, clock, lost)
    heartbeat.stop()
    heartbeat.stop()


@pytest.fixture
async def message(harness: LoopHarness) -> Message:
    """Leased to `w`; the lease has expired already."""
    await harness.queued()
    hasty = RedisQueue(harness.transport.redis, harness.transport.layout, lease_s=0.001)
    (claimed,) = await hasty.claim(ALL_CLASSES, 1, "w")
    return claimed


async def test_a_heartbeat_renews_held_messages(harness: LoopHarness, heart: Heart, message: Message) -> None:
    heart.beat.hold([message])
    heart.beat.beat()
    assert await harness.queue.reclaim(10) == []
    assert heart.lost == []


async def test_a_message_that_another_worker_leased_is_reported(
    harness: LoopHarness, heart: Heart, message: Message
) -> None:
    await until(lambda: harness.queue.reclaim(10), "the lease has ended")
    await harness.queue.claim(ALL_CLASSES, 1, "other")
    heart.beat.hold([message])
    heart.beat.beat()
    await until(lambda: heart.lost == [message.id], "the loss is reported on the event loop")


async def test_a_heartbeat_does_not_restore_an_acknowledged_message(
    harness: LoopHarness, heart: Heart, message: Message
) -> None:
    heart.beat.hold([message])
    held = list(heart.beat._held.values())  # what the thread has read
    heart.beat.drop([message])
    await harness.queue.ack([message])
    heart.beat._renew(held)
    await harness.nothing_left()


async def test_a_heartbeat_leaves_a_returned_message_in_its_lane(
    harness: LoopHarness, heart: Heart, message: Message
) -> None:
    heart.beat.hold([message])
    held = list(heart.beat._held.values())
    heart.beat.drop([message])
    await harness.queue.nack([message], "w")
    heart.beat._renew(held)
    assert [one.id for one in await harness.queue.claim([JobClass.LOW], 1, "other")] == [message.id]


async def test_without_a_heartbeat_for_a_lease_the_process_is_not_alive(heart: Heart) -> None:
    alive: list[bool] = []
    for pause_s in (9.9, 0.2):
        if not alive:
            heart.beat.beat()
        await heart.clock.advance(pause_s)
        alive.append(heart.beat.alive)
    heart.beat.beat()
    assert [*alive, heart.beat.alive] == [True, False, True]


async def test_a_worker_that_is_not_alive_claims_nothing(database_url: str, redis_url: str) -> None:
    clock = ManualClock()
    async with LoopHarness.on(
        database_url, redis_url, clock=clock, heartbeat_s=3600.0, lease_s=10.0
    ) as harness:
        executor = ScriptedExecutor(at_once=lambda *_: completed())
        async with harness.worker(executor):
            (first,) = await harness.queued()
            assert await harness.ended(first) == ["completed"]
            await clock.advance(11)  # longer than the lease, and no heartbeat has come through
            (second,) = await harness.queued()
            await until(lambda: _heard(harness), "the worker listens")
            await clock.advance(2)  # the slow poll looks as well
            assert (await harness.job(second))["state"] == "queued"
            assert (await harness.transport.queue_admin.stats()).leased == 0


async def test_a_blocked_event_loop_keeps_its_jobs(database_url: str, redis_url: str) -> None:
    """Incident 15: a blocked event loop missed its heartbeats; its jobs were taken for dead and run twice."""
    async with LoopHarness.on(database_url, redis_url, heartbeat_s=0.05) as harness:
        executor = ScriptedExecutor()
        async with harness.worker(executor):
            (job,) = await harness.queued()
            (run,) = await executor.started(1)
            with Redis.from_url(redis_url) as blocking:
                before = lease_end(blocking)
                # Nothing else happens on this event loop meanwhile: that is what this is about.
                eventually(lambda: lease_end(blocking) > before, "the lease is renewed")
            run.done(completed())
            assert await harness.ended(job) == ["completed"]
        assert (await harness.job(job))["deliveries"] == 1


async def test_stopping_leaves_no_thread(harness: LoopHarness) -> None:
    async with harness.worker(ScriptedExecutor()):
        assert "heartbeat" in {thread.name for thread in threading.enumerate()}
    assert "heartbeat" not in {thread.name for thread in threading.enumerate()}


def lease_end(redis: Redis) -> float:
    (lease,) = redis.zrange("jobs:leases", 0, -1, withscores=True)
    return float(lease[1])


async def test_a_cluster_can_start_after_its_workers(harness: LoopHarness) -> None:
    unreachable = RedisAddress("redis://127.0.0.1:1", cluster=True)
    heartbeat = Heartbeat(
        RedisLeaseRenewal(unreachable, harness.transport.layout, "w", lease_s=10),
        ManualClock(),
        harness.transport.metrics,
        on_lost=lambda _: (),
        lease_s=10,
        every_s=3600,
    )
    heartbeat.start()
    with pytest.raises(QueueUnavailableError):
        heartbeat.beat()
    heartbeat.stop()


async def _heard(harness: LoopHarness) -> bool:
    return (await harness.transport.redis.pubsub_numsub("beacon:jobs"))[0][1] > 0
