"""Finds messages that Redis knows but that are not where it says, so that nobody would ever claim them."""

from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis, RedisCluster

from beacon_contracts.tiers import JobClass
from beacon_runner.redis_queue import scripts
from beacon_runner.redis_queue.keys import Layout
from beacon_runner.redis_queue.scripts import Operation

STEP = 1_000


@dataclass(slots=True)
class _Expected:
    """What should be in each key, and a message of each lane that has work."""

    ids: dict[str, set[str]] = field(default_factory=dict)
    lanes: dict[tuple[str, str], str] = field(default_factory=dict)


class LostAndFound:
    """A lane that was deleted by hand or evicted, a list that has another name since the settings changed.

    Looking is cheap; only when the counts differ is everything read, and what is missing put back. What moves
    in the meantime is looked at again by the operation that mends it.
    """

    def __init__(self, redis: Redis | RedisCluster, layout: Layout) -> None:
        self._redis = redis
        self._layout = layout

    async def all_in_place(self) -> bool:
        known, found = await self._run(Operation.CENSUS, *JobClass)
        return bool(known == found)

    async def repair(self) -> int:
        """How many messages were not where they should have been."""
        expected = await self._expected()
        missing: list[str] = []
        for key, ids in expected.ids.items():
            missing += ids - await self._content(key)
        for job_class in JobClass:
            turns = await self._content(self._layout.ring(job_class))
            missing += [
                message_id
                for (served_in, lane), message_id in expected.lanes.items()
                if served_in == job_class and lane not in turns
            ]
        steps = [missing[start : start + STEP] for start in range(0, len(missing), STEP)]
        return sum([await self._run(Operation.MEND, *step) for step in steps])

    async def _expected(self) -> _Expected:
        known, leases, retries, *_ = self._layout.shared
        sets = {"l": leases, "k": leases, "r": retries, "s": retries}
        expected = _Expected()
        async for message_id, value in self._redis.hscan_iter(known, count=STEP):
            held, _, _, job_class, lane = value.split(":", 4)  # as written in places.inc.lua
            place = held[0]
            key = sets.get(place) or self._layout.waits_in(place, job_class, lane)
            expected.ids.setdefault(key, set()).add(message_id)
            if place == "w":
                expected.lanes[job_class, lane] = message_id
        return expected

    async def _content(self, key: str) -> set[str]:
        read: Any = self._redis.zrange if key in self._layout.shared else self._redis.lrange
        content: set[str] = set()
        start = 0
        while page := await read(key, start, start + STEP - 1):
            content.update(page)
            start += STEP
        return content

    async def _run(self, operation: Operation, *arguments: str) -> Any:
        layout = self._layout
        return await scripts.run(self._redis, operation, layout.shared, (*layout.arguments, *arguments))
