"""The message queue of the loops, on Redis: one atomic Lua operation each."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar, cast

from asyncpg.pgproto import pgproto
from redis.asyncio import Redis, RedisCluster

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.classes import better
from beacon_runner.domain.messages import Message, OutboxEntry, Topic
from beacon_runner.ports.reconcile import LiveMessage
from beacon_runner.redis_queue import scripts
from beacon_runner.redis_queue.keys import Layout
from beacon_runner.redis_queue.repair import LostAndFound
from beacon_runner.redis_queue.scripts import Operation

T = TypeVar("T")

LARGEST_STEP = 1_000  # messages that one script handles; bounds how long Redis is busy with it


class RedisQueue:
    def __init__(self, redis: Redis | RedisCluster, layout: Layout, *, lease_s: float) -> None:
        self._redis = redis
        self._layout = layout
        self._lease_ms = round(lease_s * 1000)
        self._pushing = (*layout.shared, *layout.dead, layout.idle)

    async def push(self, entries: Sequence[OutboxEntry]) -> int:
        changed = 0
        for step in _steps(entries):
            changed += await self._number(Operation.PUSH, *self._pushed(step), "", keys=self._pushing)
        return changed

    def begin_push(self, entry: OutboxEntry) -> Callable[[], Awaitable[int]] | None:  # noqa: ARG002
        return None

    def _pushed(self, entries: Sequence[OutboxEntry]) -> tuple[str | int, ...]:
        texts = words(chain.from_iterable(map(_push_arguments, entries)))
        return self._layout.chosen_lanes, texts, self._lease_ms

    async def claim(
        self, classes: Sequence[JobClass], limit: int, worker: str, pool: str = ""
    ) -> Sequence[Message]:
        keys = (*self._layout.shared, self._layout.idle)
        arguments = self._lease_ms, worker, min(limit, LARGEST_STEP), pool
        answer = await self._run(Operation.CLAIM, *arguments, *classes, keys=keys)
        return _messages(cast("str", answer).split("\n")[:-1])

    async def ack(self, messages: Sequence[Message]) -> int:
        total = 0
        for step in _steps(messages):
            total += await self._number(Operation.ACK, "", words(message.id for message in step))
        return total

    async def notify_watchers(self, jobs: Sequence[JobId]) -> None:
        for step in _steps(jobs):
            await scripts.run(self._redis, Operation.TELL, [self._layout.epoch], [job.hex for job in step])

    async def remove(self, messages: Sequence[Message]) -> int:
        return await self._on_each(Operation.REMOVE, messages)

    async def nack(self, messages: Sequence[Message], worker: str) -> int:
        # The last step first: each goes before what is there, so the first of all ends up in front.
        steps = reversed(list(_steps(messages)))
        return sum([await self._on_each(Operation.GIVE_BACK, step, worker) for step in steps])

    async def extend(self, messages: Sequence[Message], worker: str) -> Sequence[Message]:
        lost: set[str] = set()
        for step in _steps(messages):
            pairs = chain.from_iterable((message.id, rest_of(message)) for message in step)
            lost.update((await self._run(Operation.EXTEND, self._lease_ms, worker, *pairs))[0])
        return [message for message in messages if message.id in lost]

    async def reclaim(self, limit: int) -> Sequence[Message]:
        return _messages(await self._run(Operation.RECLAIM, min(limit, LARGEST_STEP)))

    async def promote_due_retries(self, limit: int) -> int:
        step = min(limit, LARGEST_STEP)
        return await self._number(Operation.TAKE_DUE, self._layout.chosen_lanes, step)

    async def move(self, message: Message, *, job_class: JobClass | None = None, front: bool = False) -> bool:
        arguments = message.id, job_class or "", "1" if front else ""
        return await self._number(Operation.MOVE, *arguments) == 1

    async def find_inconsistent(self, live: Sequence[LiveMessage]) -> Sequence[Message]:
        missing: list[Message] = []
        for step in _steps(live):
            ids = [one.message.id for one in step]
            known = cast("list[str | None]", await self._redis.hmget(self._layout.shared[0], ids))
            missing += [one.message for one, value in zip(step, known, strict=True) if _is_wrong(one, value)]
        return missing

    async def repair(self) -> int:
        lost_and_found = LostAndFound(self._redis, self._layout)
        return 0 if await lost_and_found.all_in_place() else await lost_and_found.repair()

    async def identity(self) -> str:
        """Names the run of the server: another name means that it restarted or was replaced."""
        if isinstance(self._redis, RedisCluster):
            await self._redis.initialize()
            node = self._redis.get_node_from_key(self._layout.epoch)
            info = await self._redis.info("server", target_nodes=node)
        else:
            info = await self._redis.info("server")
        return str(info["run_id"])

    async def epoch(self) -> str | None:
        """Since when this Redis holds all that is live; None when it came back empty."""
        return cast("str | None", await self._redis.get(self._layout.epoch))

    async def begin_epoch(self, epoch: str) -> bool:
        """Say that everything live is here again; false when another process said so first."""
        return bool(await self._redis.set(self._layout.epoch, epoch, nx=True))

    async def _on_each(self, operation: Operation, messages: Sequence[Message], *arguments: str | int) -> int:
        total = 0
        for step in _steps(messages):
            total += await self._number(operation, *arguments, *(message.id for message in step))
        return total

    async def _number(
        self, operation: Operation, *arguments: str | int, keys: Sequence[str] | None = None
    ) -> int:
        return cast("int", await self._run(operation, *arguments, keys=keys))

    async def _run(
        self, operation: Operation, *arguments: str | int, keys: Sequence[str] | None = None
    ) -> list[str]:
        layout = self._layout
        answer = await scripts.run(
            self._redis, operation, keys or layout.shared, (*layout.arguments, *arguments)
        )
        return cast("list[str]", answer)


def words(many: Iterable[str]) -> str:
    """Many in one argument; see words.inc.lua."""
    return "\n".join([*many, ""])


def rest_of(message: Message) -> str:
    """What the live hash keeps of a message beside its id."""
    return f"{message.stage}:{message.attempt}:{message.job_class}:{message.lane}"


def handed(text: str) -> tuple[str, Message]:
    """The pool that waited, and what it gets; see handing.inc.lua."""
    pool, message, *grant = text.split("\n")
    return pool, _messages([message], *grant)[0]


def _is_wrong(live: LiveMessage, value: str | None) -> bool:
    """Not there, in a lower class than the job's, or not in front though that was paid."""
    if value is None:
        return True
    place, _, _, job_class, _ = value.split(":", 4)  # as written in places.inc.lua
    lower = better(JobClass(job_class), live.message.job_class) is not JobClass(job_class)
    return lower or (live.front and place[0] in "wrl")


_CLASSES = {job_class.value: job_class for job_class in JobClass}


def _messages(texts: Iterable[str], grant: str = "") -> list[Message]:
    """Each as `id:stage:attempt:class:lane`; ids of jobs become what the database driver takes quickest.

    What follows a job's id is the same for all that wait in a lane for the first time, and is read once.
    """
    messages: list[Message] = []
    read: dict[str, tuple[int, int, int, JobClass, str, str]] = {}
    for text in texts:
        job, _, rest = text.partition(":")
        said = read.get(rest) or read.setdefault(rest, _said(rest))
        ticket, stage, attempt, job_class, lane, end_of_id = said
        job_id = JobId(pgproto.UUID(job))
        messages.append(Message(job_id, ticket, stage, attempt, job_class, lane, job + end_of_id, grant))
    return messages


def _said(rest: str) -> tuple[int, int, int, JobClass, str, str]:
    ticket, stage, attempt, job_class, lane = rest.split(":", 4)
    return int(ticket), int(stage), int(attempt), _CLASSES[job_class], lane, f":{ticket}"


def _push_arguments(entry: OutboxEntry) -> tuple[str, str, str, str]:
    message = entry.message
    match entry.topic:
        case Topic.JOBS:
            return "f" if entry.front else "j", message.id, rest_of(message), entry.batch or ""
        case Topic.RETRY:
            due_ms = str(round((entry.not_before or 0.0) * 1000))
            return "s" if entry.front else "r", message.id, rest_of(message), due_ms
        case Topic.DEAD:
            return "d", message.id, rest_of(message), ""


def _steps(items: Sequence[T]) -> Iterable[Sequence[T]]:
    for start in range(0, len(items), LARGEST_STEP):
        yield items[start : start + LARGEST_STEP]
