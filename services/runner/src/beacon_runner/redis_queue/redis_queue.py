"""The message queue on Redis: one atomic Lua script per operation."""

from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar, cast
from uuid import UUID

from redis.asyncio import Redis, RedisCluster

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.queue.classes import better
from beacon_runner.domain.queue.messages import Message, OutboxEntry, Topic
from beacon_runner.ports.reconcile import LiveMessage
from beacon_runner.redis_queue import scripts
from beacon_runner.redis_queue.keys import Layout
from beacon_runner.redis_queue.repair import QueueRepair
from beacon_runner.redis_queue.scripts import Operation, QueueScripts, redis_errors

T = TypeVar("T")

MAX_SCRIPT_MESSAGES = 1_000  # per script; bounds how long it blocks Redis


class RedisQueue:
    def __init__(self, redis: Redis | RedisCluster, layout: Layout, *, lease_s: float) -> None:
        self._redis = redis
        self._layout = layout
        self._scripts = QueueScripts(redis, layout)
        self._dead = layout.dead
        self._lease_ms = round(lease_s * 1000)

    async def push(self, entries: Sequence[OutboxEntry]) -> int:
        changed = 0
        for chunk in _chunks(entries):
            lanes, values = self._layout.chosen_lanes, pack_args(map(_push_values, chunk))
            changed += int(await self._scripts.run(Operation.PUSH, lanes, values, more_keys=self._dead))
        return changed

    async def claim(
        self, classes: Sequence[JobClass], limit: int, worker: str, skipped_lanes: Collection[str] = ()
    ) -> Sequence[Message]:
        limit, skipped = min(limit, MAX_SCRIPT_MESSAGES), pack_args(skipped_lanes)
        text = await self._scripts.run(Operation.CLAIM, self._lease_ms, worker, limit, skipped, *classes)
        return [_message(line) for line in str(text).splitlines()]

    async def ack(self, messages: Sequence[Message]) -> int:
        removed = 0
        for chunk in _chunks(messages):
            ids = pack_args(message.id for message in chunk)
            removed += int(await self._scripts.run(Operation.ACK, "", ids))
        return removed

    async def notify_watchers(self, jobs: Sequence[JobId]) -> None:
        for chunk in _chunks(jobs):
            with redis_errors():
                ids = [job.hex for job in chunk]
                await scripts.run(self._redis, Operation.NOTIFY, [self._layout.epoch], ids)

    async def nack(self, messages: Sequence[Message], worker: str) -> int:
        returned = 0
        # The last chunk first: each is put in front, so the first message ends up first.
        for chunk in reversed(list(_chunks(messages))):
            ids = [message.id for message in chunk]
            returned += int(await self._scripts.run(Operation.NACK, worker, *ids))
        return returned

    async def reclaim(self, limit: int) -> Sequence[Message]:
        lines = await self._scripts.run(Operation.RECLAIM, min(limit, MAX_SCRIPT_MESSAGES))
        return [_message(line) for line in lines]

    async def promote_due_retries(self, limit: int) -> int:
        lanes, limit = self._layout.chosen_lanes, min(limit, MAX_SCRIPT_MESSAGES)
        return int(await self._scripts.run(Operation.PROMOTE_DUE_RETRIES, lanes, limit))

    async def find_inconsistent(self, live: Sequence[LiveMessage]) -> Sequence[Message]:
        missing: list[Message] = []
        for chunk in _chunks(live):
            ids = [one.message.id for one in chunk]
            with redis_errors():
                held = cast("list[str | None]", await self._redis.hmget(self._layout.live, ids))
            missing += [
                one.message for one, value in zip(chunk, held, strict=True) if _is_inconsistent(one, value)
            ]
        return missing

    async def repair(self) -> int:
        repair = QueueRepair(self._redis, self._layout)
        with redis_errors():
            return 0 if await repair.is_consistent() else await repair.run()

    async def identity(self) -> str:
        """Identifies the server's run: it changes when the server restarts or is replaced."""
        with redis_errors():
            if isinstance(self._redis, RedisCluster):
                await self._redis.initialize()
                node = self._redis.get_node_from_key(self._layout.epoch)
                info = await self._redis.info("server", target_nodes=node)
            else:
                info = await self._redis.info("server")
        return str(info["run_id"])

    async def epoch(self) -> str | None:
        """Set while the queue holds everything that is live; None after Redis was emptied."""
        with redis_errors():
            return cast("str | None", await self._redis.get(self._layout.epoch))

    async def begin_epoch(self, epoch: str) -> bool:
        """Declare that everything live is in the queue; false when another process did so first."""
        with redis_errors():
            return bool(await self._redis.set(self._layout.epoch, epoch, nx=True))


def pack_args(values: Iterable[str]) -> str:
    """Many values in one argument; see args.inc.lua."""
    return "\n".join([*values, ""])


def payload_of(message: Message) -> str:
    """The part of a message that the live hash keeps under its id."""
    return f"{message.stage}:{message.attempt}:{message.job_class}:{message.lane}"


def _is_inconsistent(live: LiveMessage, value: str | None) -> bool:
    """Missing, in a lower class than the job, or not in front although that was paid."""
    if value is None:
        return True
    place, _, _, job_class, _ = value.split(":", 4)  # see layout.inc.lua
    lower = better(JobClass(job_class), live.message.job_class) is not JobClass(job_class)
    return lower or (live.front and place[0] in "wrl")


def _message(text: str) -> Message:
    """From `job:generation:stage:attempt:class:lane`, as the scripts return it."""
    job, generation, stage, attempt, job_class, lane = text.split(":", 5)
    return Message(JobId(UUID(job)), int(generation), int(stage), int(attempt), JobClass(job_class), lane)


def _push_values(entry: OutboxEntry) -> str:
    """Kind, id, payload and due time or batch, as push.lua reads them."""
    message, kind, extra = entry.message, "d", ""
    if entry.topic is Topic.JOBS:
        kind, extra = "f" if entry.front else "j", entry.batch or ""
    elif entry.topic is Topic.RETRY:
        kind, extra = "s" if entry.front else "r", str(round((entry.not_before or 0.0) * 1000))
    return f"{kind}\n{message.id}\n{payload_of(message)}\n{extra}"


def _chunks(items: Sequence[T]) -> Iterable[Sequence[T]]:
    for start in range(0, len(items), MAX_SCRIPT_MESSAGES):
        yield items[start : start + MAX_SCRIPT_MESSAGES]
