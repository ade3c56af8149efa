"""The queue for the API and operators: counts, positions, pauses, recount."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from redis.asyncio import Redis, RedisCluster

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.queue.messages import Message
from beacon_runner.ports.queue_admin import LaneCount, LaneLoad, QueuePlace, QueueStats, Upcoming
from beacon_runner.redis_queue import scripts
from beacon_runner.redis_queue.keys import WAKE_CHANNEL, Layout
from beacon_runner.redis_queue.position import PositionReply, queue_place
from beacon_runner.redis_queue.scripts import Operation, QueueScripts, redis_errors

MAX_LISTED_LANES = 100


class RedisQueueAdmin:
    def __init__(self, redis: Redis | RedisCluster, layout: Layout) -> None:
        self._redis = redis
        self._layout = layout
        self._scripts = QueueScripts(redis, layout)

    async def stats(self) -> QueueStats:
        classes, dead_list = self._layout.classes, self._layout.dead[:1]
        answer = await self._scripts.run(Operation.STATS, MAX_LISTED_LANES, *classes, more_keys=dead_list)
        retry, dead, leased, overdue, rows = answer
        by_class = {JobClass(row[0]): row[1:] for row in rows}
        return QueueStats(
            waiting={job_class: row[0] for job_class, row in by_class.items()},
            front={job_class: row[1] for job_class, row in by_class.items()},
            retry=retry,
            dead=dead,
            leased=leased,
            overdue=overdue,
            paused=frozenset(job_class for job_class, row in by_class.items() if row[2]),
            lanes=[load for job_class, row in by_class.items() for load in _loads(job_class, row[4])],
        )

    async def leased(self, lanes: Sequence[str]) -> Mapping[str, int]:
        if not lanes:
            return {}
        with redis_errors():
            counts = await self._redis.mget([self._layout.name(f"queue:{lane}:running") for lane in lanes])
        return {lane: int(count or 0) for lane, count in zip(lanes, counts, strict=True)}

    async def upcoming(self, limit: int) -> Upcoming:
        running, waiting, retrying, *counts = await self._scripts.run(
            Operation.UPCOMING, limit, *self._layout.classes
        )
        return Upcoming(_jobs(running), _jobs(waiting), _jobs(retrying), *counts)

    async def place(self, message: Message) -> QueuePlace | None:
        answer = await self._scripts.run(Operation.POSITION, message.id)
        return queue_place(message, PositionReply(*answer)) if answer else None

    async def discard(self, messages: Sequence[Message]) -> int:
        return int(await self._scripts.run(Operation.REMOVE, *(message.id for message in messages)))

    async def notify_watchers(self, job: JobId) -> None:
        with redis_errors():
            await scripts.run(self._redis, Operation.NOTIFY, [self._layout.epoch], [job.hex])

    async def paused(self) -> frozenset[JobClass]:
        with redis_errors():
            return frozenset(JobClass(str(name)) for name in await self._redis.smembers(self._layout.paused))

    async def pause(self, job_class: JobClass) -> None:
        with redis_errors():
            await self._redis.sadd(self._layout.paused, job_class)

    async def resume(self, job_class: JobClass) -> None:
        with redis_errors():
            await self._redis.srem(self._layout.paused, job_class)
            await self._redis.publish(WAKE_CHANNEL, job_class)

    async def open(self) -> None:
        with redis_errors():
            if await self._redis.set(self._layout.open, 1, nx=True):
                await self._redis.publish(WAKE_CHANNEL, "")

    async def reset_lanes(self) -> Sequence[LaneCount]:
        with redis_errors():
            counted = {key.split(":")[1] async for key in self._counters()}
        rows = await self._scripts.run(Operation.RECOUNT, ",".join(self._layout.classes), *sorted(counted))
        return [LaneCount(lane, pending, running) for lane, pending, running in rows]

    async def dead(self) -> Mapping[JobId, int]:
        with redis_errors():
            pairs = [
                message_id.split(":") async for _, message_id in self._redis.hscan_iter(self._layout.dead[1])
            ]
        return {JobId(UUID(hex=job)): int(generation) for job, generation in pairs}

    async def forget_dead(self, jobs: Sequence[JobId] | None) -> int:
        if jobs is not None and not jobs:
            return 0
        chosen = [job.hex for job in jobs or ()]
        with redis_errors():
            return int(await scripts.run(self._redis, Operation.FORGET_DEAD, self._layout.dead, chosen))

    async def ping(self) -> None:
        with redis_errors():
            await self._redis.ping()

    def _counters(self) -> Any:
        return self._redis.scan_iter(match=self._layout.name("queue:*:*").replace("[", "\\["), count=1000)


def _jobs(message_ids: Sequence[str]) -> list[JobId]:
    return [JobId(UUID(hex=name.partition(":")[0])) for name in message_ids]


def _loads(job_class: JobClass, flat: Sequence[Any]) -> list[LaneLoad]:
    return [
        LaneLoad(job_class, lane, pending, running)
        for lane, pending, running in zip(flat[0::3], flat[1::3], flat[2::3], strict=True)
    ]
