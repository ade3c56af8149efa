"""Restores messages that are in the live hash but in no list, so that no claim would find them."""

from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis, RedisCluster

from beacon_contracts.tiers import JobClass
from beacon_runner.redis_queue.keys import Layout
from beacon_runner.redis_queue.scripts import Operation, QueueScripts

CHUNK = 1_000


@dataclass(slots=True)
class _Expected:
    """The ids that each key should hold, and one message of each lane that has work."""

    ids: dict[str, set[str]] = field(default_factory=dict)
    lanes: dict[tuple[str, str], str] = field(default_factory=dict)


class QueueRepair:
    """For example after a lane was deleted or evicted, or renamed by a change of settings.

    Comparing counts is cheap; only when they differ, everything is read and missing messages are restored.
    The script checks each message again: it may have moved meanwhile.
    """

    def __init__(self, redis: Redis | RedisCluster, layout: Layout) -> None:
        self._redis = redis
        self._layout = layout
        self._scripts = QueueScripts(redis, layout)

    async def is_consistent(self) -> bool:
        held, found = await self._scripts.run(Operation.VERIFY, *JobClass)
        return bool(held == found)

    async def run(self) -> int:
        """How many messages were missing."""
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
        steps = [missing[start : start + CHUNK] for start in range(0, len(missing), CHUNK)]
        return sum([await self._scripts.run(Operation.REPAIR, *step) for step in steps])

    async def _expected(self) -> _Expected:
        known, leases, retries, *_ = self._layout.shared
        sets = {"l": leases, "k": leases, "r": retries, "s": retries}
        expected = _Expected()
        async for message_id, value in self._redis.hscan_iter(known, count=CHUNK):
            held, _, _, job_class, lane = value.split(":", 4)  # see layout.inc.lua
            place = held[0]
            key = sets.get(place) or self._layout.list_of(place, job_class, lane)
            expected.ids.setdefault(key, set()).add(message_id)
            if place == "w":
                expected.lanes[job_class, lane] = message_id
        return expected

    async def _content(self, key: str) -> set[str]:
        read: Any = self._redis.zrange if key in self._layout.shared else self._redis.lrange
        content: set[str] = set()
        start = 0
        while page := await read(key, start, start + CHUNK - 1):
            content.update(page)
            start += CHUNK
        return content
