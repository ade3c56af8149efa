"""The response to a chat request, complete or streamed."""

from collections.abc import Awaitable, Callable
from typing import Final

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from beacon_contracts.inference import InferenceState, InferenceView
from beacon_http.disconnect import ended_on_disconnect
from beacon_http.replies import JSON, Headers, Reply
from beacon_lifecycle import Clock
from beacon_runner.application.interactive import Responder
from beacon_runner.application.request_memory import ReservedMemory
from beacon_runner.domain.limits.request_quota import Admitted
from beacon_runner.http.openai.answers import chunks, completion
from beacon_runner.http.openai.errors import (
    EXPECTED_ERRORS,
    error_reply,
    failure_document,
    failure_reply,
)
from beacon_runner.http.rate_limit_headers import request_limit_headers
from beacon_runner.ports.interactive import InteractiveEvent

START_AFTER_S: Final = 5.0
"""A stream that is not queued starts with its first token, so that an error still has its status; after so
long it starts anyway, because proxies end silent requests."""
_QUEUED = (InferenceState.QUEUED, InferenceState.BACKOFF)
_EVENT_STREAM: Final = b"text/event-stream; charset=utf-8"


class ChatResponse:
    """Runs the request while it is sent; a client that disconnects cancels it."""

    def __init__(
        self,
        run: Callable[[Responder], Awaitable[None]],
        memory: ReservedMemory,
        clock: Clock,
        *,
        stream: bool,
        include_usage: bool,
    ) -> None:
        """`memory` holds the request, and is released at the end."""
        self._run = run
        self._memory = memory
        self._streams = stream
        self._include_usage = include_usage
        self._clock = clock
        self._began = clock.now()
        self._id: str
        self._admission: Admitted
        self._send: Send
        self._position: Headers = ()
        self._started = False
        self._passed_on = False
        """A part of the backend's own stream was sent."""
        self._last = b""
        self._parts: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        self._send = send
        try:
            async with ended_on_disconnect(scope):
                await self._run(self)
        except ClientDisconnect:
            if not self._started:
                raise
        except EXPECTED_ERRORS as error:
            if not self._started:
                raise
            await self._end_stream(error_reply(error, scope["path"]).body)
        finally:
            self._memory.release()

    def admitted(self, request_id: str, admission: Admitted) -> None:
        self._id, self._admission = request_id, admission

    def on_event(self, event: InteractiveEvent) -> Awaitable[None]:
        return self._stream(event) if self._streams else self._complete(event)

    async def _complete(self, event: InteractiveEvent) -> None:
        if isinstance(event, bytes):
            self._parts.append(event)
        elif not event.state.terminal:
            self._note_position(event)
        elif event.failure is not None:
            await self._reply(failure_reply(event.failure), event)
        else:
            body = b"".join(self._parts) or completion(self._id, event, self._created())
            await self._reply(Reply(200, body), event)

    async def _stream(self, event: InteractiveEvent) -> None:
        if isinstance(event, bytes):
            self._passed_on = True
            await self._write(event)
        elif event.state.terminal:
            await self._end(event)
        else:
            self._note_position(event)
            is_late = self._started or self._clock.now() - self._began > START_AFTER_S
            if is_late or event.state in _QUEUED:
                await self._write(_comment(event))

    async def _end(self, view: InferenceView) -> None:
        """The backend's own stream ends itself."""
        if view.failure is not None and not self._started:
            await self._reply(failure_reply(view.failure), view)
        elif view.failure is not None:
            status, document = failure_document(view.failure)
            document["error"]["status"] = status
            await self._end_stream(orjson.dumps(document))
        else:
            if not self._passed_on:
                usage = self._include_usage
                await self._write(chunks(self._id, view, self._created(), include_usage=usage))
            await self._write(b"", more=False)

    async def _end_stream(self, document: bytes) -> None:
        boundary = b"" if self._last.endswith(b"\n\n") else b"\n\n"
        await self._write(boundary + b"data: " + document + b"\n\n", more=False)

    async def _write(self, piece: bytes, *, more: bool = True) -> None:
        if not self._started:
            self._started = True
            headers = (
                (b"content-type", _EVENT_STREAM),
                (b"cache-control", b"no-store"),
                (b"x-accel-buffering", b"no"),
                *self._position,
                *request_limit_headers(self._admission),
            )
            await self._send({"type": "http.response.start", "status": 200, "headers": [*headers]})
        self._last = piece or self._last
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})

    async def _reply(self, reply: Reply, view: InferenceView) -> None:
        headers = [
            (b"content-type", JSON),
            (b"content-length", b"%d" % len(reply.body)),
            *reply.headers,
            *self._position,
            *request_limit_headers(self._admission),
            *_location(view),
        ]
        self._started = True
        await self._send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": reply.body})

    def _note_position(self, view: InferenceView) -> None:
        """The state of the request when it was accepted."""
        if not self._position:
            position = [] if view.position is None else [(b"x-beacon-position", b"%d" % view.position)]
            eta = [] if view.eta is None else [(b"x-beacon-eta", b"%d" % round(view.eta.p50_s))]
            if view.state not in _QUEUED:
                position, eta = [(b"x-beacon-position", b"0")], [(b"x-beacon-eta", b"0")]
            self._position = (*position, *eta)

    def _created(self) -> int:
        return int(self._clock.wall().timestamp())


def _comment(view: InferenceView) -> bytes:
    if view.state not in _QUEUED:
        return b": %s\n\n" % view.state.encode()
    position = "" if view.position is None else f" position={view.position}"
    eta = "" if view.eta is None else f" eta_s={round(view.eta.p50_s)}"
    reason = "" if view.waiting_for is None else f" waiting_for={view.waiting_for}"
    return f": queued{position}{eta}{reason}\n\n".encode()


def _location(view: InferenceView) -> Headers:
    if view.actual_region is None or view.backend is None:
        return ()
    return (
        (b"x-beacon-region", view.actual_region.encode()),
        (b"x-beacon-backend", view.backend.encode()),
    )
