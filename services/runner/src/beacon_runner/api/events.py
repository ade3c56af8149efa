"""A job's events: as a page, or as a stream that goes on from where the client stopped."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import orjson

from beacon_contracts.events import JobEvent
from beacon_contracts.ids import JobId, UserId
from beacon_lifecycle import Clock
from beacon_runner.api.job_desk import JobDesk
from beacon_runner.api.views import event_view
from beacon_runner.domain.states import LIVE

PAGE = 500
LOOK_EVERY_S = 0.5
HEARTBEAT_S = 15.0
HEARTBEAT = b": still here\n\n"


@dataclass(frozen=True, slots=True)
class EventDesk:
    jobs: JobDesk
    clock: Clock

    async def page(self, job: JobId, owner: UserId | None, after: int) -> tuple[list[JobEvent], bool]:
        """Events with numbers above `after`, and whether the job can have more of them."""
        record = await self.jobs.record(job, owner)
        found = await self.jobs.reader.events(record, after, PAGE)
        more = record.head.state in LIVE or (bool(found) and found[-1].seq < record.event_seq)
        return [event_view(job, event) for event in found], more

    async def stream(self, job: JobId, owner: UserId | None, after: int) -> AsyncIterator[bytes]:
        """Server-sent events until the job is over and all is told; a comment during long silences."""
        silent_since = self.clock.now()
        while True:
            events, more = await self.page(job, owner, after)
            for event in events:
                after = event.seq
                yield as_sse(event)
            if not more:
                return
            if events:
                silent_since = self.clock.now()
                continue
            if self.clock.now() - silent_since >= HEARTBEAT_S:
                silent_since = self.clock.now()
                yield HEARTBEAT
            await self.clock.sleep(LOOK_EVERY_S)


def as_sse(event: JobEvent) -> bytes:
    data = orjson.dumps(event.model_dump(mode="json"))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), data)
