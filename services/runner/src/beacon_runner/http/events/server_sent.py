"""Server-sent events: a stream whose last event gives the reason of its end."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from beacon_contracts.ids import JobId
from beacon_runner.domain.jobs.records import EventRecord
from beacon_runner.http.events.stream_end import JOB_OVER, SERVER_STOPPING, stream_end_of
from beacon_runner.http.problems import EXPECTED_ERRORS
from beacon_runner.http.views import event_view
from beacon_runner.ports.events import JobWatch

HEARTBEAT = b": heartbeat\n\n"
HEADERS: Mapping[str, str] = {"cache-control": "no-store", "x-accel-buffering": "no"}


class EventStream(StreamingResponse):
    """Counts as a stream of its user. Clients that read nothing are disconnected and may resume."""

    def __init__(
        self,
        job: JobId,
        events: AsyncGenerator[EventRecord | None],
        watch: JobWatch,
        stream: AbstractAsyncContextManager[None],
    ) -> None:
        self._stream = stream
        self._encoded = _encoded(job, events, watch)
        super().__init__(self._encoded, media_type="text/event-stream", headers=HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stream:
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        finally:
            await self._encoded.aclose()


async def _encoded(
    job: JobId, events: AsyncGenerator[EventRecord | None], watch: JobWatch
) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(events):
            async for event in events:
                yield HEARTBEAT if event is None else _sse(job, event)
    except EXPECTED_ERRORS as error:
        yield stream_end_of(error).sse()
    else:
        yield (SERVER_STOPPING if watch.closed else JOB_OVER).sse()


def _sse(job: JobId, event: EventRecord) -> bytes:
    data = event_view(job, event).model_dump_json().encode()
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), data)
