"""Use cases about stored jobs: read, cancel, resume, skip, retry one execution."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import structlog

from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass
from beacon_runner.application.queue_position import JobPosition, PositionService
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.accounts.credit import Payment
from beacon_runner.domain.errors import (
    ExecutionNotFoundError,
    JobChangedError,
    JobNotFoundError,
    JobStateError,
    QueueUnavailableError,
)
from beacon_runner.domain.execution.plan import ExecutionKey, execution_keys
from beacon_runner.domain.execution.retry_policy import RetryPolicy
from beacon_runner.domain.jobs.commands import (
    JobVersion,
    RetryDecision,
    decide_cancel,
    decide_resume,
    decide_retry,
    decide_skip,
)
from beacon_runner.domain.jobs.records import (
    AttemptRecord,
    ExecutionPlace,
    ExecutionRecord,
    JobRecord,
    SentExecutions,
)
from beacon_runner.domain.jobs.states import WAITING
from beacon_runner.domain.queue.messages import Message
from beacon_runner.domain.queue.wait_estimate import WaitEstimate, jobs_ahead
from beacon_runner.ports.cancels import RouterCancel
from beacon_runner.ports.jobs import JobCommands, JobQueries
from beacon_runner.ports.queue_admin import QueueAdmin

log = structlog.get_logger(__name__)

T = TypeVar("T")

MAX_TRIES = 5
EXPORTED_EXECUTIONS = 20  # at a time: an output may have 256 kB
INLINE_EXECUTIONS = 200  # in the view of a job; the others are paged


@dataclass(frozen=True, slots=True)
class CommandRules:
    """The configuration that commands depend on."""

    retries: RetryPolicy
    front_class: JobClass
    price_of: Callable[[Mapping[str, Any]], int]


@dataclass(frozen=True, slots=True)
class ExecutionSlice:
    """Some executions of a job, in order, and what is recorded of them; `more`: others follow."""

    job: JobRecord
    keys: Sequence[ExecutionKey]
    recorded: Sequence[ExecutionRecord]
    more: bool


@dataclass(frozen=True, slots=True)
class JobDetails:
    """A job with its first executions; `skip_price` is None when the job cannot be skipped ahead."""

    executions: ExecutionSlice
    sent: SentExecutions
    outputs: bool
    position: JobPosition
    skip_price: int | None


@dataclass(frozen=True, slots=True)
class ExecutionDetails:
    job: JobRecord
    key: ExecutionKey
    recorded: ExecutionRecord | None
    earlier: Sequence[AttemptRecord]


@dataclass(frozen=True, slots=True)
class SkippedJob:
    details: JobDetails
    payment: Payment
    estimate: WaitEstimate
    places_gained: int | None


@dataclass(frozen=True, slots=True)
class JobService:
    """`owner` None is an operator, who may read and change every job. `by`: recorded for jobs of others."""

    queries: JobQueries
    commands: JobCommands
    queue: QueueAdmin
    positions: PositionService
    rules: Callable[[], CommandRules]
    cancel_at_routers: Callable[[RouterCancel], Awaitable[None]]
    on_queued: Callable[[], None]

    async def get(self, job: JobId, owner: UserId | None) -> JobRecord:
        record = await self.queries.job(job)
        if record is None or (owner is not None and record.head.user != owner):
            raise JobNotFoundError
        return record

    async def details(self, job: JobId, owner: UserId | None, *, outputs: bool = True) -> JobDetails:
        """`outputs` False leaves out the results of executions and steps."""
        record = await self.get(job, owner)
        position = await self.positions.of(record)
        waits_at_router = record.state in WAITING and position.waits_at_router
        can_skip = (record.in_queue or waits_at_router) and not record.front
        return JobDetails(
            await self._slice(record, None, INLINE_EXECUTIONS, outputs=outputs),
            await self.queries.sent_executions(job) if record.claimed else SentExecutions(),
            outputs,
            position,
            self.rules().price_of(record.spec) if can_skip else None,
        )

    async def executions(
        self,
        job: JobId,
        owner: UserId | None,
        *,
        after: ExecutionPlace | None,
        limit: int,
        outputs: bool,
    ) -> ExecutionSlice:
        return await self._slice(await self.get(job, owner), after, limit, outputs=outputs)

    async def _slice(
        self, job: JobRecord, after: ExecutionPlace | None, limit: int, *, outputs: bool
    ) -> ExecutionSlice:
        places = execution_keys(job.spec)
        following = (key for key in places if after is None or (key.stage, key.ordinal) > after)
        keys = list(islice(following, limit + 1))
        shown = keys[:limit]
        part = await self._part(job, shown, outputs=outputs)
        return replace(part, more=len(keys) > len(part.keys))

    async def _part(self, job: JobRecord, keys: Sequence[ExecutionKey], *, outputs: bool) -> ExecutionSlice:
        """These executions, or the first of them if their outputs are too large."""
        if not keys:
            return ExecutionSlice(job, (), (), more=False)
        found = await self.queries.executions(job.id, keys, outputs=outputs)
        end = found.ends_before
        shown = keys if end is None else [key for key in keys if (key.stage, key.ordinal) < end]
        return ExecutionSlice(job, shown, found.recorded, more=len(keys) > len(shown))

    async def results(self, job: JobId, owner: UserId | None) -> AsyncGenerator[ExecutionSlice]:
        """All executions, a bounded number at a time; nothing is held between them."""
        record = await self.get(job, owner)
        following = execution_keys(record.spec)
        left: list[ExecutionKey] = []
        while left := [*left, *islice(following, EXPORTED_EXECUTIONS - len(left))]:
            part = await self._part(record, left, outputs=True)
            yield part
            left = left[len(part.keys) :]

    async def execution(self, job: JobId, stage: int, ordinal: int, owner: UserId | None) -> ExecutionDetails:
        record = await self.get(job, owner)
        key = _execution_key(record, stage, ordinal)
        recorded = await self.queries.execution(job, stage, ordinal)
        return ExecutionDetails(record, key, recorded, await self.queries.attempts(job, stage, ordinal))

    async def cancel(self, job: JobId, owner: UserId | None, *, by: Actor | None = None) -> None:
        """Stored first. Then queue and routers are notified; the relay repeats what fails here."""

        async def decide_and_store(record: JobRecord) -> None:
            decision = decide_cancel(record)
            if decision is None:
                return
            at_router = await self.commands.cancel(JobVersion.of(record, by), decision)
            if decision.refund:  # it waited in a queue
                await self._discard(record.message)
            if at_router is not None:
                await self.cancel_at_routers(at_router)
            await self._notify_watchers(job)

        await self._on_current(job, owner, decide_and_store)

    async def resume(self, job: JobId, owner: UserId | None, *, by: Actor | None = None) -> None:
        async def decide_and_store(record: JobRecord) -> None:
            decide_resume(record)
            await self.commands.resume(JobVersion.of(record, by))
            if record.state is JobState.SCHEDULED:
                await self._discard(record.message)  # of the start that was scheduled

        await self._on_current(job, owner, decide_and_store)
        await self._queued(job)

    async def retry(
        self, job: JobId, stage: int, ordinal: int, owner: UserId | None, *, by: Actor | None = None
    ) -> RetryDecision:
        async def decide_and_store(record: JobRecord) -> RetryDecision:
            _execution_key(record, stage, ordinal)
            execution = await self.queries.execution(job, stage, ordinal)
            try:
                decision = decide_retry(record, execution, self.rules().retries)
            except JobStateError:
                # The execution may be newer than the job: they are read by two statements.
                if JobVersion.of(await self.get(job, owner)) != JobVersion.of(record):
                    raise JobChangedError from None
                raise
            if decision.run:
                await self.commands.retry_execution(JobVersion.of(record, by), ordinal, decision)
                if record.in_backoff:
                    await self._discard(record.message)  # of the attempt that starts now instead
            return decision

        decision = await self._on_current(job, owner, decide_and_store)
        if decision.run:
            await self._queued(job)
        return decision

    async def skip(
        self, job: JobId, owner: UserId | None, payer: UserId, *, by: Actor | None = None
    ) -> SkippedJob:
        """Stored first; the publisher moves the message in Redis."""
        before = await self.get(job, owner)
        ahead, front = await self._jobs_ahead(before)

        async def decide_and_store(record: JobRecord) -> Payment:
            at_router = record.claimed and (await self.positions.of(record)).waits_at_router
            decision = decide_skip(
                record,
                self.rules().price_of(record.spec),
                self.rules().front_class,
                waits_at_router=at_router,
            )
            return await self.commands.skip(JobVersion.of(record, by), decision, payer)

        payment = await self._on_current(job, owner, decide_and_store)
        await self._queued(job)
        details = await self.details(job, owner)
        gained = None if ahead is None or front is None else max(ahead - front, 0)
        estimator = self.positions.estimator
        found = WaitEstimate() if front is None else await estimator.of_front(before, front)
        return SkippedJob(details, payment, found, gained)

    async def _on_current(
        self, job: JobId, owner: UserId | None, decide_and_store: Callable[[JobRecord], Awaitable[T]]
    ) -> T:
        """Read, decide, store; again when the job has changed between the read and the write."""
        for _ in range(MAX_TRIES - 1):
            try:
                return await decide_and_store(await self.get(job, owner))
            except JobChangedError:
                continue
        return await decide_and_store(await self.get(job, owner))

    async def _jobs_ahead(self, job: JobRecord) -> tuple[int | None, int | None]:
        """How many jobs are served before this one now, and at the front; None when that is unknown."""
        if job.claimed:
            position = (await self.positions.of(job)).position
            return (None, None) if position is None else (position - 1, 0)
        try:
            place, stats = await self.queue.place(job.message), await self.queue.stats()
        except QueueUnavailableError as error:
            log.info("position_unknown", error=str(error))
            return None, None
        front = sum(stats.front.values())
        if place is not None:
            return place.ahead, front
        job_class = job.head.job_class  # not in its lane yet: it will be added at the end
        pending = {load.lane: load.pending for load in stats.lanes if load.job_class is job_class}
        here = jobs_ahead(stats.front.get(job_class, 0), pending, job.lane)
        return here.own + here.others, front

    async def _queued(self, job: JobId) -> None:
        self.on_queued()
        await self._notify_watchers(job)

    async def _notify_watchers(self, job: JobId) -> None:
        try:
            await self.queue.notify_watchers(job)
        except QueueUnavailableError as error:
            log.info("watch_notify_failed", error=str(error))  # watchers also poll

    async def _discard(self, message: Message) -> None:
        try:
            await self.queue.discard([message])
        except QueueUnavailableError as error:
            log.info("message_discard_failed", error=str(error))  # its claim finds that the job has ended


def _execution_key(job: JobRecord, stage: int, ordinal: int) -> ExecutionKey:
    for key in execution_keys(job.spec):
        if key.stage == stage and key.ordinal == ordinal:
            return key
    raise ExecutionNotFoundError
