"""The response to a chat request, complete or streamed."""

from contextlib import AbstractAsyncContextManager
from typing import Final

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from beacon_contracts.inference import InferenceState, InferenceView
from beacon_http.disconnect import ended_on_disconnect
from beacon_http.replies import JSON, Headers, Reply
from beacon_lifecycle import Clock
from beacon_runner.application.interactive import InteractiveRun
from beacon_runner.http.openai.answers import chunks, completion
from beacon_runner.http.openai.errors import (
    EXPECTED_ERRORS,
    error_reply,
    failure_document,
    failure_reply,
)
from beacon_runner.http.rate_limit_headers import request_limit_headers

START_AFTER_S: Final = 5.0
"""A stream that is not queued starts with its first token, so that an error still has its status; after so
long it starts anyway, because proxies end silent requests."""
_QUEUED = (InferenceState.QUEUED, InferenceState.BACKOFF)
_EVENT_STREAM: Final = b"text/event-stream; charset=utf-8"


class ChatResponse:
    """Runs the request while it is sent; a client that disconnects cancels it."""

    def __init__(
        self,
        run: AbstractAsyncContextManager[InteractiveRun],
        clock: Clock,
        *,
        stream: bool,
        include_usage: bool,
    ) -> None:
        self._opened = run
        self._run: InteractiveRun
        self._streams = stream
        self._include_usage = include_usage
        self._clock = clock
        self._send: Send
        self._position: Headers = ()
        self._started = False
        self._passed_on = False
        """A part of the backend's own stream was sent."""
        self._last = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        self._send = send
        try:
            async with self._opened as self._run, ended_on_disconnect(scope):
                await (self._stream() if self._streams else self._complete())
        except ClientDisconnect:
            if not self._started:
                raise
        except EXPECTED_ERRORS as error:
            if not self._started:
                raise
            await self._end_stream(error_reply(error, scope["path"]).body)

    async def _complete(self) -> None:
        parts: list[bytes] = []
        async for one in self._run.events:
            if isinstance(one, bytes):
                parts.append(one)
            elif not one.state.terminal:
                self._note_position(one)
            elif one.failure is not None:
                await self._reply(failure_reply(one.failure), one)
            else:
                body = b"".join(parts) or completion(self._run.id, one, self._created())
                await self._reply(Reply(200, body), one)

    async def _stream(self) -> None:
        began = self._clock.now()
        async for one in self._run.events:
            if isinstance(one, bytes):
                self._passed_on = True
                await self._write(one)
            elif one.state.terminal:
                await self._end(one)
            else:
                self._note_position(one)
                if one.state in _QUEUED or self._clock.now() - began > START_AFTER_S:
                    await self._write(_comment(one))

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
                await self._write(chunks(self._run.id, view, self._created(), include_usage=usage))
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
                *request_limit_headers(self._run.admission),
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
            *request_limit_headers(self._run.admission),
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
    return f": queued{position}{eta}\n\n".encode()


def _location(view: InferenceView) -> Headers:
    if view.actual_region is None or view.backend is None:
        return ()
    return (
        (b"x-beacon-region", view.actual_region.encode()),
        (b"x-beacon-backend", view.backend.encode()),
    )
