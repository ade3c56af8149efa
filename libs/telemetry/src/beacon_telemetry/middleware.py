"""Request ids, the log context, the access log and the metrics of every request."""

import random
import re
from time import perf_counter

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beacon_telemetry.context import JOB_ID_HEADER, REQUEST_ID_HEADER, TRACE_HEADER
from beacon_telemetry.http_metrics import HttpMetrics, route_template

log = structlog.get_logger("beacon.access")

_QUIET_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_STARTS = frozenset({"http.response.start", "websocket.http.response.start", "websocket.accept"})

_REQUEST_ID = REQUEST_ID_HEADER.lower().encode()
_JOB_ID = JOB_ID_HEADER.lower().encode()
_TRACE = TRACE_HEADER.encode()
_SAFE_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_SAFE_TRACE = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class TelemetryMiddleware:
    """Accepts or creates `X-Request-Id` and returns it; logs it with `X-Job-Id` and `traceparent`."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics, *, access_log: bool = True) -> None:
        self._app = app
        self._metrics = metrics
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        # A server may start a pipelined request in the context of the previous one.
        structlog.contextvars.clear_contextvars()
        fields = _context_fields(scope["headers"])
        structlog.contextvars.bind_contextvars(**fields)
        request_id = (_REQUEST_ID, fields["request_id"].encode())
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] in _STARTS:
                status = message.get("status", 101)
                headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != _REQUEST_ID]
                message["headers"] = [*headers, request_id]
            elif message["type"] == "websocket.close":
                status = status or 403  # the response to a WebSocket that is closed before it is accepted
            await send(message)

        started = perf_counter()
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            self._record(scope, status or 500, perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope.get("method", "WEBSOCKET")
        if scope["type"] == "http":
            label = method if method in _METHODS else "OTHER"
            self._metrics.record(route_template(scope), label, status, seconds)
        if self._access_log and scope["path"] not in _QUIET_PATHS:
            duration_ms = round(seconds * 1000, 2)
            log.info(
                "http_request", method=method, path=scope["path"], status=status, duration_ms=duration_ms
            )


def _context_fields(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """The ids in the headers of a request; values that are too long or not printable are ignored."""
    fields: dict[str, str] = {}
    for name, value in headers:
        if name == _REQUEST_ID and _SAFE_ID.fullmatch(value):
            fields["request_id"] = value.decode()
        elif name == _JOB_ID and _SAFE_ID.fullmatch(value):
            fields["job_id"] = value.decode()
        elif name == _TRACE and _SAFE_TRACE.fullmatch(value):
            fields["trace"] = value.decode()
    if "request_id" not in fields:
        fields["request_id"] = f"{random.getrandbits(128):032x}"  # no secret, so `random` suffices
    return fields
