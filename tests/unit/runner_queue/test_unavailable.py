"""Without Redis every operation of the adapters raises the error of the domain."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
from redis.asyncio import Redis, RedisCluster

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_redis import RedisAddress
from beacon_runner.domain.errors import QueueUnavailableError
from beacon_runner.domain.queue.messages import Message, OutboxEntry, Topic
from beacon_runner.ports.reconcile import LiveMessage
from beacon_runner.redis_queue import Layout, RedisQueue, RedisQueueAdmin
from beacon_runner.redis_queue.lease_renewal import RedisLeaseRenewal
from beacon_runner.redis_queue.websocket_tokens import RedisWebSocketTokens

UNREACHABLE = RedisAddress("redis://127.0.0.1:1/0")
LAYOUT = Layout()
JOB = JobId(UUID(int=1))
MESSAGE = Message(JOB, 1, 0, 1, JobClass.LOW, "a")
LIVE = LiveMessage(MESSAGE, None)

QUEUE: dict[str, tuple[Any, ...]] = {
    "push": ([OutboxEntry(Topic.JOBS, MESSAGE)],),
    "claim": ((JobClass.LOW,), 1, "w"),
    "ack": ([MESSAGE],),
    "notify_watchers": ([JOB],),
    "nack": ([MESSAGE], "w"),
    "reclaim": (1,),
    "promote_due_retries": (1,),
    "find_inconsistent": ([LIVE],),
    "repair": (),
    "identity": (),
    "epoch": (),
    "begin_epoch": ("e",),
}
ADMIN: dict[str, tuple[Any, ...]] = {
    "stats": (),
    "leased": (["a"],),
    "upcoming": (1,),
    "place": (MESSAGE,),
    "discard": ([MESSAGE],),
    "notify_watchers": (JOB,),
    "paused": (),
    "pause": (JobClass.LOW,),
    "resume": (JobClass.LOW,),
    "open": (),
    "reset_lanes": (),
    "dead": (),
    "forget_dead": ([JOB],),
    "ping": (),
}
TOKENS: dict[str, tuple[Any, ...]] = {"issue": (b"key", JOB), "redeem": ("text", JOB)}
Adapter = Callable[[Redis | RedisCluster], Any]
ADAPTERS: list[tuple[Adapter, dict[str, tuple[Any, ...]]]] = [
    (lambda redis: RedisQueue(redis, LAYOUT, lease_s=10), QUEUE),
    (lambda redis: RedisQueueAdmin(redis, LAYOUT), ADMIN),
    (RedisWebSocketTokens, TOKENS),
]


@pytest.fixture
async def redis() -> AsyncIterator[Redis | RedisCluster]:
    client = UNREACHABLE.open()
    yield client
    await client.aclose()


@pytest.mark.parametrize(("adapter", "calls"), ADAPTERS)
async def test_every_operation_reports_an_unavailable_queue(
    redis: Redis, adapter: Adapter, calls: dict[str, tuple[Any, ...]]
) -> None:
    tested = adapter(redis)
    operations = {
        name for name, _ in inspect.getmembers(tested, inspect.iscoroutinefunction) if name[0] != "_"
    }
    assert operations == set(calls)
    for name, arguments in calls.items():
        operation: Callable[..., Awaitable[Any]] = getattr(tested, name)
        with pytest.raises(QueueUnavailableError):
            await operation(*arguments)


def test_a_renewal_of_leases_reports_an_unavailable_queue() -> None:
    leases = RedisLeaseRenewal(UNREACHABLE, LAYOUT, "w", lease_s=10)
    with pytest.raises(QueueUnavailableError):
        leases.renew([MESSAGE])
    with pytest.raises(QueueUnavailableError):
        leases.renew([])
    leases.close()
