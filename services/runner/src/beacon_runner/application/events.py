"""A job's events: as a page, or as a stream that continues after the last event that the client has."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from beacon_contracts.ids import JobId, UserId
from beacon_lifecycle import Clock
from beacon_runner.application.jobs import JobService
from beacon_runner.application.position_events import PositionEvents
from beacon_runner.domain.jobs.records import EventRecord, JobRecord
from beacon_runner.domain.jobs.states import LIVE
from beacon_runner.ports.events import JobWatch

MAX_PAGE = 500
MAX_STREAM_PAGE = 100  # bounds what is held in memory for a client that does not read
POLL_INTERVAL_S = 5.0  # without a notification: Redis may be unavailable
HEARTBEAT_S = 15.0


@dataclass(frozen=True, slots=True)
class JobEventService:
    jobs: JobService
    watch: JobWatch
    positions: PositionEvents
    clock: Clock

    async def page(self, job: JobId, owner: UserId | None, after: int) -> tuple[Sequence[EventRecord], bool]:
        """Events with numbers above `after`, and whether the job can have more of them."""
        return await self._page(await self.jobs.get(job, owner), after, MAX_PAGE)

    async def follow(
        self, job: JobId, owner: UserId | None, after: int, check_access: Callable[[], Awaitable[object]]
    ) -> AsyncGenerator[EventRecord | None]:
        """Events above `after` until the job has ended and all are sent; None is a heartbeat.

        `check_access` raises when the client may no longer read the job. Each client reads from Postgres at
        its own pace, so a slow one holds no memory.
        """
        last_sent_at = self.clock.now()
        with self.watch.watch(job) as changed:
            more = True
            while more and not self.watch.closed:
                await check_access()
                record = await self.jobs.get(job, owner)
                events, more = await self._page(record, after, MAX_STREAM_PAGE)
                for event in events:
                    after = event.seq
                    yield event
                if events or (more and await self.positions.update(record)):
                    last_sent_at = self.clock.now()
                elif self.clock.now() - last_sent_at >= HEARTBEAT_S:
                    last_sent_at = self.clock.now()
                    yield None
                elif more:
                    await changed.wait(POLL_INTERVAL_S, self.clock)

    async def ended_within(self, job: JobId, owner: UserId | None, seconds: float) -> bool:
        """Whether the job ends in this time."""
        deadline = self.clock.now() + seconds
        with self.watch.watch(job) as changed:
            while not self.watch.closed:
                if (await self.jobs.get(job, owner)).state not in LIVE:
                    return True
                left_s = deadline - self.clock.now()
                if left_s <= 0:
                    break
                await changed.wait(min(left_s, POLL_INTERVAL_S), self.clock)
        return False

    async def _page(self, job: JobRecord, after: int, limit: int) -> tuple[Sequence[EventRecord], bool]:
        events = await self.jobs.queries.events(job, after, limit)
        more = job.state in LIVE or (bool(events) and events[-1].seq < job.event_seq)
        return events, more
