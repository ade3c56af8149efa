"""Any sequence of operations leaves Redis and the model in the same state."""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any, TypeVar

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from beacon_contracts.ids import JobId, new_uuid
from beacon_contracts.tiers import JobClass
from beacon_redis import RedisAddress
from beacon_runner.domain.queue.messages import Message, OutboxEntry, Topic
from beacon_runner.ports.reconcile import LiveMessage
from beacon_runner.redis_queue import Layout, RedisQueue, RedisQueueAdmin, scripts
from beacon_runner.redis_queue.redis_queue import payload_of
from beacon_runner.redis_queue.repair import QueueRepair
from beacon_runner.redis_queue.scripts import Operation
from tests.integration.runner_queue.model import QueueModel

T = TypeVar("T")

LANES = ["anna", "bea", "cid"]
WORKERS = ["w1", "w2"]
JOBS = [JobId(new_uuid()) for _ in range(12)]  # few, so that operations meet the same message often

job_classes = st.sampled_from(list(JobClass))
workers = st.sampled_from(WORKERS)
messages = st.builds(
    lambda number, job_class: Message(JOBS[number], 1, 0, 1, job_class, LANES[number % len(LANES)]),
    st.integers(0, len(JOBS) - 1),
    job_classes,
)
some_messages = st.lists(messages, min_size=1, max_size=6, unique_by=lambda message: message.id)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self, redis_url: str) -> None:
        super().__init__()
        self._loop = asyncio.Runner()
        self._redis = RedisAddress(redis_url).open()
        layout = self._layout = Layout()
        self._queue = RedisQueue(self._redis, layout, lease_s=3600)
        self._desk = RedisQueueAdmin(self._redis, layout)
        self._places = QueueRepair(self._redis, layout)
        self._model = QueueModel()
        self._do(self._redis.flushdb())
        self._do(self._desk.open())

    def teardown(self) -> None:
        assert self._do(self._desk.reset_lanes()) == []
        self._do(self._redis.aclose())
        self._loop.close()

    def _do(self, work: Awaitable[T]) -> T:
        async def done() -> T:
            return await work

        return self._loop.run(done())

    @rule(pushed=some_messages, front=st.booleans())
    def push(self, pushed: list[Message], front: bool) -> None:
        self._do(self._queue.push([OutboxEntry(Topic.JOBS, message, front=front) for message in pushed]))
        for message in pushed:
            self._model.push(message, front=front)

    @rule(pushed=some_messages, front=st.booleans())
    def push_retry(self, pushed: list[Message], front: bool) -> None:
        entries = [OutboxEntry(Topic.RETRY, message, not_before=1.0, front=front) for message in pushed]
        self._do(self._queue.push(entries))
        for message in pushed:
            self._model.push_retry(message, front=front)

    @rule(limit=st.integers(1, 8))
    def promote_due_retries(self, limit: int) -> None:
        due = sorted(one for one, known in self._model.known.items() if known.place == "retry")[:limit]
        assert self._do(self._queue.promote_due_retries(limit)) == len(due)
        self._model.promote_due_retries(due)

    @rule(
        classes=st.permutations(list(JobClass)),
        limit=st.integers(1, 8),
        worker=workers,
        skipped=st.sets(st.sampled_from(LANES)),
    )
    def claim(self, classes: list[JobClass], limit: int, worker: str, skipped: set[str]) -> None:
        claimed = self._do(self._queue.claim(classes, limit, worker, skipped))
        assert list(claimed) == self._model.claim(classes, limit, worker, skipped)

    @rule(chosen=some_messages)
    def ack(self, chosen: list[Message]) -> None:
        ids = [message.id for message in chosen]
        assert self._do(self._queue.ack(chosen)) == self._model.forget(ids)

    @rule(chosen=some_messages)
    def remove(self, chosen: list[Message]) -> None:
        ids = [message.id for message in chosen]
        assert self._do(self._desk.discard(chosen)) == self._model.remove(ids)

    @rule(chosen=some_messages, worker=workers)
    def nack(self, chosen: list[Message], worker: str) -> None:
        ids = [message.id for message in chosen]
        assert self._do(self._queue.nack(chosen, worker)) == self._model.nack(ids, worker)

    @rule(chosen=some_messages, worker=workers)
    def extend(self, chosen: list[Message], worker: str) -> None:
        pairs: list[str | int] = [value for message in chosen for value in (message.id, payload_of(message))]
        arguments = [*self._layout.arguments, 60_000, worker, *pairs]
        lost, *_ = self._do(scripts.run(self._redis, Operation.EXTEND, self._layout.shared, arguments))
        assert lost == self._model.extend(chosen, worker)

    @rule(limit=st.integers(1, 8))
    def all_leases_end(self, limit: int) -> None:
        leased = sorted(self._model.leased_ids())
        if leased:
            self._do(self._redis.zadd("jobs:leases", dict.fromkeys(leased, 1)))
        reclaimed = self._do(self._queue.reclaim(limit))
        assert sorted(message.id for message in reclaimed) == leased[:limit]
        self._model.nack(leased[:limit], None)

    @rule(job_class=job_classes, paused=st.booleans())
    def pause_or_resume(self, job_class: JobClass, paused: bool) -> None:
        self._do(self._desk.pause(job_class) if paused else self._desk.resume(job_class))
        (self._model.paused.add if paused else self._model.paused.discard)(job_class)

    @rule(compared=some_messages)
    def find_inconsistent(self, compared: list[Message]) -> None:
        missing = [message for message in compared if self._model.misplaces(message)]
        live = [LiveMessage(message, None) for message in compared]
        assert list(self._do(self._queue.find_inconsistent(live))) == missing

    @invariant()
    def counts_match_the_model(self) -> None:
        stats = self._do(self._desk.stats())
        assert dict(stats.waiting) == self._model.waiting()
        assert stats.leased == len(self._model.leased_ids())
        assert self._do(self._places.is_consistent())
        names = [f"queue:{lane}:{what}" for lane in LANES for what in ("pending", "running")]
        counters = [int(value or 0) for value in self._do(self._redis.mget(names))]
        assert counters == [count for lane in LANES for count in self._model.loads(lane)]


def test_redis_behaves_as_the_model(redis_url: str) -> None:
    machine: Any = partial(QueueMachine, redis_url)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            suppress_health_check=list(HealthCheck),
        ),
    )
