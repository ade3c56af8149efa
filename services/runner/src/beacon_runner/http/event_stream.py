"""Server-sent events: a stream that says why it ends, also to a client that does not read."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import structlog
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from beacon_contracts.events import JobEvent
from beacon_runner.http.stream_end import OVER, SLOW, STOPPING, TOLD, ending_of
from beacon_runner.http.stream_protocols import Line, line_of
from beacon_runner.redis_queue.watchers import Watchers

log = structlog.get_logger(__name__)

HEARTBEAT = b": still here\n\n"
HEADERS: Mapping[str, str] = {"cache-control": "no-store", "x-accel-buffering": "no"}


class EventStream(StreamingResponse):
    """Drops a client that takes nothing for `patience_s`; it can come back without loss."""

    def __init__(
        self, events: AsyncGenerator[JobEvent | None], watchers: Watchers, *, patience_s: float
    ) -> None:
        self._written = _written(events, watchers)
        super().__init__(self._written, media_type="text/event-stream", headers=HEADERS)
        self._patience_s = patience_s
        self._line: Line | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._line = line_of(scope)
        if self._line is not None:
            self._line.keep_little()
        await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        async def patient(message: Message) -> None:
            async with asyncio.timeout(self._patience_s):
                await send(message)

        try:
            await super().stream_response(patient)
        except TimeoutError:
            await self._drop(send)
        finally:
            await self._written.aclose()

    async def _drop(self, send: Send) -> None:
        log.info("slow_client_dropped", after_s=self._patience_s)
        if self._line is not None:
            self._line.say_last()
            await send({"type": "http.response.body", "body": SLOW.sse(), "more_body": False})


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
