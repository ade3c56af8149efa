"""What the routes about jobs do, apart from HTTP."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import ExecutionView, JobView, SkipView
from beacon_redis import REDIS_ERRORS
from beacon_runner.application.queue_position import PositionService
from beacon_runner.application.wait_estimator import WaitEstimator
from beacon_runner.domain.messages import Message
from beacon_runner.domain.plan import Place, places
from beacon_runner.domain.standing import places_ahead
from beacon_runner.http.views import execution_view, job_view
from beacon_runner.maintenance.cancel_notifier import CancelNotifier
from beacon_runner.ports.queue_admin import QueueAdmin
from beacon_runner.postgres.credit import Credit, Pricing
from beacon_runner.postgres.job_commands import (
    JobControl,
    NoSuchExecutionError,
    NoSuchJobError,
    RetriedExecution,
)
from beacon_runner.postgres.job_queries import JobRecord, Reader

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class JobService:
    reader: Reader
    control: JobControl
    queue: QueueAdmin
    courier: CancelNotifier
    outlook: WaitEstimator
    standings: PositionService
    credit: Credit
    price_of: Pricing
    on_queued: Callable[[], None]

    async def record(self, job: JobId, owner: UserId | None) -> JobRecord:
        """The job, if it is one that `owner` may see."""
        record = await self.reader.job(job)
        if record is None or (owner is not None and record.head.user != owner):
            raise NoSuchJobError
        return record

    async def view(self, job: JobId, owner: UserId | None) -> JobView:
        record = await self.record(job, owner)
        executions = await self.reader.executions(job)
        waits = record.waits_for_its_turn(self.standings.clock.wall())
        standing = await self.standings.of(record)
        return job_view(
            record,
            executions,
            position=standing.position,
            estimated_wait_s=standing.estimated_wait_s,
            skip_price=self.price_of(record.spec) if waits and not record.front else None,
        )

    async def execution(self, job: JobId, stage: int, ordinal: int, owner: UserId | None) -> ExecutionView:
        record = await self.record(job, owner)
        place = _place(record, stage, ordinal)
        recorded = await self.reader.execution(job, stage, ordinal)
        earlier = await self.reader.attempts(job, stage, ordinal)
        return execution_view(record, place, recorded, earlier)

    async def cancel(self, job: JobId, owner: UserId | None) -> None:
        """Durable first; then queue and routers are told. The relay tells those who do not answer."""
        cancelled = await self.control.cancel(job, owner)
        if cancelled.waiting is not None:
            await self._discard(cancelled.waiting)
        if cancelled.at_router is not None:
            await self.courier.notify(cancelled.at_router)
        if cancelled.changed:
            await self._tell(job)

    async def resume(self, job: JobId, owner: UserId | None) -> None:
        await self.control.resume(job, owner)
        self.on_queued()
        await self._tell(job)

    async def skip(self, job: JobId, owner: UserId | None, payer: UserId) -> SkipView:
        """Durable first; the message moves when the publisher carries the order to Redis."""
        before = await self.record(job, owner)
        ahead, in_front = await self._ahead(before)
        paid = await self.credit.skip(job, owner, payer)
        self.on_queued()
        await self._tell(job)
        view = await self.view(job, owner)
        gained = None if ahead is None or in_front is None else max(ahead - in_front, 0)
        position = view.position if in_front is None else in_front + 1
        return SkipView(
            **view.model_dump(exclude={"position", "estimated_wait_s"}),
            position=position,
            estimated_wait_s=self.outlook.wait_s(before.spec, position),
            cost=paid.price,
            credit=paid.credit,
            places_gained=gained,
        )

    async def _ahead(self, record: JobRecord) -> tuple[int | None, int | None]:
        """How many are served before the job now, and after it has paid; None when nobody knows."""
        try:
            place, stats = await self.queue.place(record.message), await self.queue.stats()
        except REDIS_ERRORS as error:
            log.info("position_unknown", error=str(error))
            return None, None
        # One that is not there yet will join its lane last.
        joins = places_ahead(stats, record.head.job_class, record.lane)
        return joins if place is None else place.ahead, sum(stats.front.values())

    async def retry(self, job: JobId, stage: int, ordinal: int, owner: UserId | None) -> RetriedExecution:
        answer = await self.control.retry_execution(job, stage, ordinal, owner)
        if answer.queued:
            self.on_queued()
            await self._tell(job)
        return answer

    async def _tell(self, job: JobId) -> None:
        try:
            await self.queue.notify_watchers(job)
        except REDIS_ERRORS as error:
            log.info("watchers_not_told", error=str(error))  # they look by themselves, later

    async def _discard(self, message: Message) -> None:
        try:
            await self.queue.discard([message])
        except REDIS_ERRORS as error:
            log.info("cancelled_message_stays", error=str(error))  # its claim finds nothing to do


def _place(record: JobRecord, stage: int, ordinal: int) -> Place:
    for place in places(record.spec):
        if place.stage == stage and place.ordinal == ordinal:
            return place
    raise NoSuchExecutionError
