"""Server-sent events: a stream whose last event gives the reason of its end."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from starlette.responses import StreamingResponse
from starlette.types import Send

from beacon_contracts.events import JobEvent
from beacon_runner.http.stream_end import OVER, STOPPING, TOLD, ending_of
from beacon_runner.redis_queue.watchers import Watchers

HEARTBEAT = b": still here\n\n"
HEADERS: Mapping[str, str] = {"cache-control": "no-store", "x-accel-buffering": "no"}


class EventStream(StreamingResponse):
    """A client that reads nothing is disconnected by the server; it can resume without loss."""

    def __init__(self, events: AsyncGenerator[JobEvent | None], watchers: Watchers) -> None:
        self._written = _written(events, watchers)
        super().__init__(self._written, media_type="text/event-stream", headers=HEADERS)

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        finally:
            await self._written.aclose()


async def _written(events: AsyncGenerator[JobEvent | None], watchers: Watchers) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(events):
            async for event in events:
                yield HEARTBEAT if event is None else _sse(event)
    except TOLD as error:
        yield ending_of(error).sse()
    else:
        yield (STOPPING if watchers.closed else OVER).sse()


def _sse(event: JobEvent) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (
        event.seq,
        event.type.encode(),
        event.model_dump_json().encode(),
    )
