"""Jobs that start at a time, expire at a time, or wait for a limit of their user."""

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from beacon_config import LiveConfig
from beacon_contracts.ids import UserId
from beacon_lifecycle import RunResult
from beacon_runner.domain.errors import QueueUnavailableError
from beacon_runner.domain.limits.job_quota import Allowance
from beacon_runner.ports.schedule import EndedJobQueue, ScheduleStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ScheduledStarts:
    """Redis moves the message of a scheduled job when it is due; this records that the job is queued."""

    store: ScheduleStore
    batch: int = 1_000

    async def run_once(self) -> RunResult:
        return RunResult.limited(await self.store.start_due(self.batch), self.batch)


@dataclass(frozen=True, slots=True)
class Expiry:
    """Stored first; what remains in Redis is dropped when a worker claims it."""

    store: ScheduleStore
    queue: EndedJobQueue
    batch: int = 200

    async def run_once(self) -> RunResult:
        expired = await self.store.expire(self.batch)
        try:
            if expired:
                await self.queue.discard(expired)
            for message in expired:
                await self.queue.notify_watchers(message.job)
        except QueueUnavailableError as error:
            log.info("message_discard_failed", error=str(error))
        return RunResult.limited(len(expired), self.batch)


@dataclass(slots=True)
class LimitAdmission:
    """Each run visits the next users whose jobs wait for a limit."""

    store: ScheduleStore
    live: LiveConfig
    notify_outbox: Callable[[], None]
    users: int = 100
    jobs: int = 500
    _after: UserId | None = field(default=None, init=False)

    async def run_once(self) -> RunResult:
        found = await self.store.waiting_users(self._after, self.users)
        self._after = found[-1].user if len(found) == self.users else None
        admitted, config = 0, self.live.current
        for user, tier, disabled in found:
            if not disabled:
                allowance = Allowance.of(config.tiers[config.known_tier(tier)])
                admitted += await self.store.admit(user, allowance, self.jobs)
        if admitted:
            self.notify_outbox()
        if self._after is None:
            await self.store.forget_admitted()
        return RunResult(admitted, more=self._after is not None)
