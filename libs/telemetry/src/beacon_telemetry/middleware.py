"""Gives every request an id, binds it to the log context and writes the access log."""

import random
import re
from time import perf_counter

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beacon_telemetry.context import JOB_ID_HEADER, REQUEST_ID_HEADER, TRACE_HEADER

log = structlog.get_logger("beacon.access")

_QUIET_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

_REQUEST_ID = REQUEST_ID_HEADER.lower().encode()
_JOB_ID = JOB_ID_HEADER.lower().encode()
_TRACE = TRACE_HEADER.encode()
_SAFE_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_SAFE_TRACE = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class RequestContextMiddleware:
    """Accepts or creates `X-Request-Id` and returns it; logs it with `X-Job-Id` and `traceparent`."""

    def __init__(self, app: ASGIApp, *, access_log: bool = True) -> None:
        self._app = app
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        response = _Response(send, _bind_request(scope["headers"]).encode())
        if not self._access_log or scope["path"] in _QUIET_PATHS:
            await self._app(scope, receive, response.send)
            return
        started = perf_counter()
        try:
            await self._app(scope, receive, response.send)
        finally:
            _write_access_line(scope, response.status, perf_counter() - started)


def _bind_request(headers: list[tuple[bytes, bytes]]) -> str:
    """Bind the ids of a request to the log context of this task; returns the request id."""
    # A server may start a pipelined request in the context of the previous one.
    structlog.contextvars.clear_contextvars()
    fields = _fields_of(headers)
    structlog.contextvars.bind_contextvars(**fields)
    return fields["request_id"]


class _Response:
    """Adds the request id to the headers of the response and stores its status."""

    __slots__ = ("_request_id", "_send", "status")

    def __init__(self, send: Send, request_id: bytes) -> None:
        self._send = send
        self._request_id = request_id
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind in ("http.response.start", "websocket.accept"):
            self.status = message.get("status", 101)
            headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != _REQUEST_ID]
            message["headers"] = [*headers, (_REQUEST_ID, self._request_id)]
        elif kind == "websocket.close" and self.status is None:
            self.status = 403  # the response to a WebSocket that is closed before it is accepted
        await self._send(message)


def _fields_of(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """The ids in the headers of a request; values that are too long or not printable are ignored."""
    fields = {"request_id": _request_id(headers)}
    for name, value in headers:
        if name == _JOB_ID and _SAFE_ID.fullmatch(value):
            fields["job_id"] = value.decode()
        elif name == _TRACE and _SAFE_TRACE.fullmatch(value):
            fields["trace"] = value.decode()
    return fields


def _request_id(headers: list[tuple[bytes, bytes]]) -> str:
    """The id that the client sent, or a new one. It is no secret, so `random` suffices."""
    for name, value in headers:
        if name == _REQUEST_ID and _SAFE_ID.fullmatch(value):
            return value.decode()
    return f"{random.getrandbits(128):032x}"


def _write_access_line(scope: Scope, status: int | None, seconds: float) -> None:
    log.info(
        "http_request",
        method=scope.get("method", "WEBSOCKET"),
        path=scope["path"],
        status=status or 500,
        duration_ms=round(seconds * 1000, 2),
    )
