"""A queue on a real server, with short functions to create and inspect messages."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from redis.asyncio import Redis, RedisCluster

from beacon_contracts.ids import JobId, new_uuid
from beacon_contracts.tiers import JobClass
from beacon_redis import RedisAddress
from beacon_runner.domain.queue.messages import Message, OutboxEntry, Topic
from beacon_runner.redis_queue import Layout, RedisQueue, RedisQueueAdmin, scripts
from beacon_runner.redis_queue.keys import HASH_TAG
from beacon_runner.redis_queue.redis_queue import payload_of
from beacon_runner.redis_queue.scripts import Operation


def message(lane: str = "anna", job_class: JobClass = JobClass.LOW, *, generation: int = 1) -> Message:
    return Message(JobId(new_uuid()), generation, 0, 1, job_class, lane)


def entry(wanted: Message, **more: Any) -> OutboxEntry:
    return OutboxEntry(Topic.JOBS, wanted, **more)


@dataclass
class QueueHarness:
    address: RedisAddress
    redis: Redis | RedisCluster
    layout: Layout
    queue: RedisQueue
    admin: RedisQueueAdmin

    @classmethod
    @asynccontextmanager
    async def on(cls, address: RedisAddress) -> AsyncIterator[Self]:
        async with address.open() as redis:
            layout = Layout(prefix=HASH_TAG if address.cluster else "")
            made = cls(
                address, redis, layout, RedisQueue(redis, layout, lease_s=60), RedisQueueAdmin(redis, layout)
            )
            await made.admin.open()
            yield made

    def with_layout(self, *, lease_s: float = 60, **changes: Any) -> Self:
        """The same Redis with another layout or lease."""
        layout = replace(self.layout, **changes)
        queue = RedisQueue(self.redis, layout, lease_s=lease_s)
        return replace(self, layout=layout, queue=queue, admin=RedisQueueAdmin(self.redis, layout))

    async def add(self, *messages: Message, front: bool = False) -> int:
        return await self.queue.push([entry(one, front=front) for one in messages])

    async def claim(self, limit: int = 100, worker: str = "w1") -> Sequence[Message]:
        return await self.queue.claim(tuple(JobClass), limit, worker)

    async def extend(self, worker: str, *messages: Message) -> list[str]:
        """Renew as the heartbeat does; returns the ids of messages that another worker has leased."""
        pairs = [value for one in messages for value in (one.id, payload_of(one))]
        arguments: list[str | int] = [*self.layout.arguments, 60_000, worker, *pairs]
        lost, *_ = await scripts.run(self.redis, Operation.EXTEND, self.layout.shared, arguments)
        return list(lost)

    async def loads(self, lane: str) -> tuple[int, int]:
        """The counters of a lane: pending, running."""
        names = [self.layout.name(f"queue:{lane}:{what}") for what in ("pending", "running")]
        pending, running = [await self.redis.get(name) for name in names]
        return int(pending or 0), int(running or 0)

    async def keys(self) -> set[str]:
        found = [key async for key in self.redis.scan_iter(match=f"{self.layout.prefix}*", count=1000)]
        return {key.removeprefix(self.layout.prefix) for key in found} - {"jobs:open"}
