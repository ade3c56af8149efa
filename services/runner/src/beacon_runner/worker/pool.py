"""A number of slots, and the classes that they serve: claims as much as fits, when there may be something."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from beacon_config.tiers import PoolConfig
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import Clock, RunResult, WakeEvent
from beacon_redis import REDIS_ERRORS
from beacon_runner.domain.grants import granted
from beacon_runner.domain.messages import Message
from beacon_runner.domain.stage_result import ClaimedJob
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.claims import ClaimStore
from beacon_runner.ports.queue import MessageQueue
from beacon_runner.worker.build_run import open_run
from beacon_runner.worker.heartbeat import Heartbeat
from beacon_runner.worker.job_runner import JobRunner
from beacon_runner.worker.run import JobRun

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Intake:
    """What the pools of a process share."""

    queue: MessageQueue
    store: ClaimStore
    bench: JobRunner
    heartbeat: Heartbeat
    worker: str
    clock: Clock
    metrics: LoopMetrics
    ring: Callable[[], None]
    batch: int = 200
    lease_s: float = 10.0


class Pool:
    def __init__(self, name: str, config: PoolConfig, intake: Intake) -> None:
        self.name = name
        self.wakeup = WakeEvent()
        self._free = config.slots
        self._classes: Sequence[JobClass] = config.served
        self._intake = intake
        intake.metrics.running.labels(name).set_function(lambda: config.slots - self._free)
        self._told = True  # something may be waiting that this pool has not seen
        self._claiming = False
        self._handed: list[Message] = []
        self._begun: list[JobRun] = []  # on grants, which are to be confirmed
        self._asked_at = self._leased_after = intake.clock.now()
        self._waits = False  # in Redis, for the next message
        self.helpers: Sequence[Pool] = ()  # who hears of it when more waits than this pool can take

    @property
    def is_ready(self) -> bool:
        """It would claim at once what it is told of."""
        return self._free > 0 and not self._claiming

    def serves(self, job_class: str) -> bool:
        return job_class in self._classes

    def tell(self) -> None:
        """Something may wait here that this pool has not seen."""
        self._told = True
        self.wakeup.set()

    def hand(self, message: Message) -> None:
        """It was leased to this pool, whose last claim had asked for more than there was.

        With a grant it begins at once, unless a claim is under way that may fill the slots.
        """
        self._handed.append(message)
        if not self._claiming:
            self._begin_granted()
        self.wakeup.set()

    async def return_handed(self) -> None:
        """What this pool does not come to any more."""
        handed, self._handed = self._handed, []
        begun, self._begun = self._begun, []
        handed += self._let_go(begun)
        if not handed:
            return
        try:
            await self._intake.queue.nack(handed, self._intake.worker)
        except REDIS_ERRORS as error:  # their leases end, and what else is to be stopped is
            log.warning("handed_not_given_back", count=len(handed), error=str(error))

    async def run_once(self) -> RunResult:
        """Claim what fits and begin it."""
        self._claiming = True
        try:
            self._begin_granted()
            if self._begun:
                return await self._confirm()
            return await (self._take_handed() if self._handed else self._claim())
        finally:
            self._claiming = False

    async def _take_handed(self) -> RunResult:
        """Then claim, to wait again."""
        handed, self._handed = self._handed, []
        if self._may_take(len(handed)):
            await self._take(handed)
        else:
            await self._too_late(handed)
        return RunResult(len(handed), more=True)

    def _may_take(self, count: int) -> bool:
        return count <= self._free and self._intake.heartbeat.alive and not self._is_late(self._leased_after)

    def _begin_granted(self) -> None:
        """Of what was handed here, what Postgres need not be asked about first.

        A grant of a job that is worked on here already has come late: whoever claimed it took that away.
        """
        if not self._may_take(len(self._handed)):
            return
        handed, self._handed = self._handed, []
        for message in handed:
            if message.grant and message.job not in self._intake.bench:
                self._begun.append(self._begin_unconfirmed(message))
            else:
                self._handed.append(message)

    def _begin_unconfirmed(self, message: Message) -> JobRun:
        intake = self._intake
        run = open_run(message, granted(message), intake.clock.unix())
        run.confirmed = False
        self._free -= 1
        intake.heartbeat.hold([message])
        intake.bench.begin(run, self._free_slot)
        return run

    async def _confirm(self) -> RunResult:
        """From now on they may be written about. What was granted too late, or in vain, is given back.

        When one fails, the others stay for the next round, or are given back with the rest.
        """
        count = len(self._begun)
        while self._begun:
            await self._confirm_one(self._begun.pop(0))
        return RunResult(count, more=True)

    async def _confirm_one(self, run: JobRun) -> None:
        if run.let_go:
            return
        intake, confirmed = self._intake, False
        try:
            confirmed = await intake.store.confirm(run.message, run.job, intake.worker)
        finally:
            if confirmed:
                intake.metrics.claimed.labels(self._classes[0]).inc()
                intake.bench.confirm(run)
            elif lost := self._let_go([run]):
                intake.metrics.stale.inc()
                await intake.queue.nack(lost, intake.worker)

    def _let_go(self, runs: Sequence[JobRun]) -> list[Message]:
        """Stop working on them; what has begun at the router is left to the next who claims them."""
        ours = [run for run in runs if not run.let_go]
        for run in ours:
            self._intake.bench.let_go(run.job.id)
        messages = [run.message for run in ours]
        self._intake.heartbeat.drop(messages)
        return messages

    async def _claim(self) -> RunResult:
        intake = self._intake
        limit = min(self._free, intake.batch)
        if limit <= 0 or not intake.heartbeat.alive:
            return RunResult(0)
        self._told = False
        # What is handed from now on was leased after this claim, or after the last one if that waits still.
        self._leased_after = self._asked_at if self._waits else intake.clock.now()
        self._asked_at, self._waits = intake.clock.now(), True
        messages = await intake.queue.claim(self._classes, limit, intake.worker, self.name)
        self._waits = len(messages) < limit
        if not messages:
            return RunResult(0)
        if self._is_late(self._asked_at):
            return await self._too_late(messages)
        self._told = not self._waits
        if self._told:
            for helper in self.helpers:
                helper.tell()
        await self._take(messages)
        return RunResult(len(messages), more=self._told and self._free > 0)

    def _is_late(self, leased_after: float) -> bool:
        return self._intake.clock.now() - leased_after > self._intake.lease_s / 2

    async def _take(self, messages: Sequence[Message]) -> None:
        self._free -= len(messages)
        jobs = await self._fence(messages)
        self._begin(messages, jobs)
        if len(jobs) < len(messages):
            await self._drop_stale(messages, jobs)

    async def _fence(self, messages: Sequence[Message]) -> Sequence[ClaimedJob]:
        """The jobs that the messages still speak for; a failure returns all of them."""
        intake = self._intake
        intake.heartbeat.hold(messages)
        try:
            jobs = await intake.store.claim(messages, intake.worker)
        except BaseException:
            intake.heartbeat.drop(messages)
            self._free += len(messages)
            await intake.queue.nack(messages, intake.worker)
            raise
        return jobs

    async def _too_late(self, messages: Sequence[Message]) -> RunResult:
        """We stood still: the leases may be over, and the jobs another worker's. To fence would rob it."""
        log.warning("claimed_too_late", count=len(messages))
        await self._intake.queue.nack(messages, self._intake.worker)
        return RunResult(0)

    async def _drop_stale(self, messages: Sequence[Message], jobs: Sequence[ClaimedJob]) -> None:
        wanted = {job.id for job in jobs}
        stale = [message for message in messages if message.job not in wanted]
        self._free += len(stale)
        self._intake.heartbeat.drop(stale)
        self._intake.metrics.stale.inc(len(stale))
        self._intake.ring()  # those that were delivered too often have become dead letters
        try:
            await self._intake.queue.ack(stale)
        except REDIS_ERRORS as error:  # their leases end, and they are recognised again
            log.warning("stale_not_acknowledged", count=len(stale), error=str(error))

    def _begin(self, messages: Sequence[Message], jobs: Sequence[ClaimedJob]) -> None:
        intake = self._intake
        by_job = {message.job: message for message in messages}
        now, free_slot = intake.clock.unix(), self._free_slot
        for job in jobs:
            run = open_run(by_job[job.id], job, now)
            older = intake.bench.begin(run, free_slot)
            if older is not None and older.message.id != run.message.id:
                intake.heartbeat.drop([older.message])  # its lease ends, and the claim after that drops it
        intake.metrics.claimed.labels(self._classes[0]).inc(len(jobs))

    def _free_slot(self) -> None:
        self._free += 1
        if self._told:
            self.wakeup.set()
