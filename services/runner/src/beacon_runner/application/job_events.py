"""A job's events: as a page, or as a stream that goes on from where the client stopped."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from beacon_contracts.events import JobEvent
from beacon_contracts.ids import JobId, UserId
from beacon_lifecycle import Clock
from beacon_runner.application.jobs import JobService
from beacon_runner.application.position_events import PositionEvents
from beacon_runner.domain.states import LIVE
from beacon_runner.http.views import event_view
from beacon_runner.postgres.job_queries import JobRecord
from beacon_runner.redis_queue.watchers import Watchers

Check = Callable[[], Awaitable[object]]

PAGE = 500
PAGE_OF_A_STREAM = 100  # what a client that does not read makes this process hold
LOOK_EVERY_S = 5.0  # when no wake-up comes: Redis may be away
HEARTBEAT_S = 15.0


@dataclass(frozen=True, slots=True)
class JobEventService:
    jobs: JobService
    watchers: Watchers
    positions: PositionEvents
    clock: Clock

    async def page(self, job: JobId, owner: UserId | None, after: int) -> tuple[list[JobEvent], bool]:
        """Events with numbers above `after`, and whether the job can have more of them."""
        return await self._page(await self.jobs.record(job, owner), after, PAGE)

    async def _page(self, record: JobRecord, after: int, most: int) -> tuple[list[JobEvent], bool]:
        found = await self.jobs.reader.events(record, after, most)
        more = record.head.state in LIVE or (bool(found) and found[-1].seq < record.event_seq)
        return [event_view(record.head.id, event) for event in found], more

    async def follow(
        self, job: JobId, owner: UserId | None, after: int, still_allowed: Check | None = None
    ) -> AsyncGenerator[JobEvent | None]:
        """Events from `after` on, until the job is over and all is told; None breaks a long silence.

        `still_allowed` raises when whoever follows may no longer do so.
        Each client reads from Postgres at its own pace, so a slow one holds nothing but its place.
        """
        heard_at = self.clock.now()
        with self.watchers.watch(job) as wakeup:
            more = True
            while more and not self.watchers.closed:
                if still_allowed is not None:
                    await still_allowed()
                record = await self.jobs.record(job, owner)
                events, more = await self._page(record, after, PAGE_OF_A_STREAM)
                for event in events:
                    after = event.seq
                    yield event
                if events or (more and await self.positions.tell(record)):
                    heard_at = self.clock.now()
                elif self.clock.now() - heard_at >= HEARTBEAT_S:
                    heard_at = self.clock.now()
                    yield None
                elif more:
                    await wakeup.wait(LOOK_EVERY_S, self.clock)
