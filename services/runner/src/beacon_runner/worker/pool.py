"""A number of slots and the classes that they serve: claims as many jobs as fit and starts them.

A job holds a slot until a router has accepted it; in a strict pool until it is recorded.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from beacon_config.queues import PoolConfig
from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import Clock, RunResult, WakeEvent
from beacon_runner.domain.errors import QueueUnavailableError
from beacon_runner.domain.queue.messages import Message
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.claims import ClaimStore
from beacon_runner.ports.queue import MessageQueue
from beacon_runner.worker.heartbeat import Heartbeat
from beacon_runner.worker.in_flight import InFlight
from beacon_runner.worker.job_runner import JobRunner
from beacon_runner.worker.run import build_run

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClaimDependencies:
    """What the pools of a process share."""

    queue: MessageQueue
    store: ClaimStore
    runner: JobRunner
    in_flight: InFlight
    heartbeat: Heartbeat
    worker: str
    clock: Clock
    metrics: LoopMetrics
    max_deliveries: int
    batch: int = 200
    lease_s: float = 10.0
    claiming: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One claim at a time: it takes more jobs at once, and knows what is in flight."""


class Pool:
    def __init__(self, name: str, config: PoolConfig, shared: ClaimDependencies) -> None:
        self.name = name
        self.wakeup = WakeEvent()
        self._free = config.slots
        self.classes: Sequence[JobClass] = config.served
        self._strict = config.strict
        self.may_have_work = True  # something may be waiting that the last claim has not returned
        self._shared = shared
        shared.in_flight.on_room.append(self._claim_if_more_waits)
        shared.metrics.slots_used.labels(name).set_function(lambda: config.slots - self._free)

    @property
    def is_ready(self) -> bool:
        """Whether it would claim immediately after a notification."""
        return self._free > 0 and not self._shared.claiming.locked()

    def notify(self) -> None:
        """Messages may be waiting for this pool."""
        self.may_have_work = True
        self.wakeup.set()

    async def run_once(self) -> RunResult:
        """Lease as many messages as there are free slots and room, claim their jobs and start them."""
        shared = self._shared
        if self._free <= 0 or not shared.heartbeat.alive:
            return RunResult(0)
        async with shared.claiming:
            room, full_lanes = shared.in_flight.claimable()
            limit = min(self._free, shared.batch, room)
            if not limit:
                return RunResult(0)
            self.may_have_work = False
            asked_at = shared.clock.now()
            messages = await shared.queue.claim(self.classes, limit, shared.worker, full_lanes)
            more = len(messages) == limit
            if more or full_lanes:
                self.may_have_work = True
            if not messages:
                return RunResult(0)
            if shared.clock.now() - asked_at > shared.lease_s / 2:
                # The process was stalled: the leases may have expired, and claiming would take the jobs from
                # another worker.
                log.warning("claim_too_late", count=len(messages))
                await shared.queue.nack(messages, shared.worker)
                return RunResult(0)
            await self._claim_and_start(messages)
            return RunResult(len(messages), more=more and self._free > 0)

    async def _claim_and_start(self, messages: Sequence[Message]) -> None:
        shared, newest = self._shared, _newest_of_each_job(messages)
        self._free -= len(messages)
        shared.heartbeat.hold(messages)
        try:
            jobs = await shared.store.claim(list(newest.values()), shared.worker)
        except BaseException:
            shared.heartbeat.drop(messages)
            self._free += len(messages)
            await shared.queue.nack(messages, shared.worker)
            raise
        started = [newest[job.id] for job in jobs]
        now = shared.clock.unix()
        for job_class, count in Counter(message.job_class for message in started).items():
            shared.metrics.jobs_claimed.labels(job_class).inc(count)
        for message, job in zip(started, jobs, strict=True):
            run = build_run(message, job, now, max_deliveries=shared.max_deliveries)
            older = shared.runner.begin(run, self._free_slot, keep_slot=self._strict)
            if older is not None and older.message.id != message.id:
                shared.heartbeat.drop([older.message])  # its lease expires
        if len(started) < len(messages):
            await self._drop_stale(messages, started)

    async def _drop_stale(self, messages: Sequence[Message], started: Sequence[Message]) -> None:
        """Remove messages of an old generation and of jobs that have ended."""
        shared, current = self._shared, {message.id for message in started}
        stale = [message for message in messages if message.id not in current]
        self._free += len(stale)
        shared.heartbeat.drop(stale)
        shared.metrics.stale_claims.inc(len(stale))
        try:
            await shared.queue.ack(stale)
        except QueueUnavailableError as error:  # their leases expire, and the next claim drops them
            log.warning("stale_ack_failed", count=len(stale), error=str(error))

    def _free_slot(self) -> None:
        self._free += 1
        self._claim_if_more_waits()

    def _claim_if_more_waits(self) -> None:
        if self.may_have_work:
            self.wakeup.set()


def _newest_of_each_job(messages: Iterable[Message]) -> dict[JobId, Message]:
    """An old message is in Redis next to the newest one if its acknowledgement was lost."""
    newest: dict[JobId, Message] = {}
    for message in messages:
        other = newest.get(message.job)
        if other is None or other.generation < message.generation:
            newest[message.job] = message
    return newest
