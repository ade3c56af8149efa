"""No tight polling: a commit wakes the publisher, a push wakes the workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from beacon_lifecycle import ManualClock, SystemClock, WakeEvent
from beacon_redis import RedisAddress, Subscriber
from beacon_runner.redis_queue.outbox_notifier import OutboxNotifier
from beacon_runner.wiring.loops import RelayStore, build_relay
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until
from tests.integration.runner_loops.harness import LoopHarness, ScriptedExecutor, completed

LISTENER = f"listener-{uuid4().hex}"


@asynccontextmanager
async def listening(redis_url: str, received: list[str]) -> AsyncIterator[asyncio.Event]:
    notified = asyncio.Event()

    def receive(word: str) -> None:
        received.append(word)
        notified.set()

    address = RedisAddress(f"{redis_url}?client_name={LISTENER}")
    listener = Subscriber("test", address, SystemClock(), {"beacon:outbox": receive})
    await listener.start()
    await notified.wait()  # it is notified once when it has subscribed
    notified.clear()
    yield notified
    await listener.stop()


async def test_a_notification_wakes_another_process(redis_url: str) -> None:
    received: list[str] = []
    async with listening(redis_url, received) as notified, RedisAddress(redis_url).open() as redis:
        notifier = OutboxNotifier(redis)
        await notifier.start()
        notifier.notify()
        await asyncio.wait_for(notified.wait(), WAIT_TIMEOUT_S)
        await notifier.stop()


async def test_a_notification_wakes_the_own_process_without_redis() -> None:
    notifier, wakeup = OutboxNotifier(RedisAddress("redis://127.0.0.1:1/0").open()), WakeEvent()
    notifier.add_local(wakeup)
    notifier.notify()
    await asyncio.wait_for(wakeup.wait(3600, ManualClock()), WAIT_TIMEOUT_S)


async def test_a_subscriber_reconnects_after_a_lost_connection(redis_url: str) -> None:
    received: list[str] = []
    async with listening(redis_url, received) as notified, RedisAddress(redis_url).open() as redis:
        (mine,) = [client for client in await redis.client_list() if client["name"] == LISTENER]
        await redis.client_kill_filter(_id=mine["id"])

        async def publish() -> bool:
            await redis.publish("beacon:outbox", "again")
            return notified.is_set()

        await until(publish, "the listener receives again")


async def test_a_job_is_processed_by_wake_ups_without_polls(database_url: str, redis_url: str) -> None:
    """The clock does not advance, so nothing polls."""
    async with LoopHarness.on(database_url, redis_url, clock=ManualClock()) as harness:
        relay = build_relay(harness.transport, RelayStore.on(harness.database))
        for service in relay:
            await service.start()
        executor = ScriptedExecutor(at_once=lambda *_: completed())
        async with harness.worker(executor):
            await until(lambda: _subscribed(harness), "relay and worker listen")
            (job,) = await harness.submit()
            harness.transport.outbox_notifier.notify()
            assert await harness.ended(job) == ["completed"]
        for service in reversed(relay):
            await service.stop()


async def _subscribed(harness: LoopHarness) -> bool:
    channels = await harness.transport.redis.pubsub_numsub("beacon:jobs", "beacon:outbox")
    return all(count > 0 for _, count in channels)
