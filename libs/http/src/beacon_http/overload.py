"""Refuses requests beyond the connection limit with 503 and Retry-After; serves health and metrics."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from beacon_http.connections import CONNECTION, ConnectionLimit
from beacon_http.problems import make_problem
from beacon_http.replies import problem_reply
from beacon_http.request_body import discard_body

_ALWAYS_SERVED = frozenset({"/healthz", "/readyz", "/metrics"})
_CLOSE = (b"connection", b"close")
_OVERLOAD = problem_reply(
    make_problem(
        503,
        "too_many_connections",
        "this process has as many connections as it may have; retry later",
        retry_after_s=1,
    )
)
_MAX_DISCARDED_BYTES = 16 * 1024 * 1024
_DISCARD_TIMEOUT_S = 2.0


class ConnectionLimitMiddleware:
    """Reports to the connection limit when requests start and finish, and refuses surplus connections."""

    def __init__(self, app: ASGIApp, limit: ConnectionLimit) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = self._limit.by_client.get(scope["client"])
        if connection is None:  # the client disconnected before its request was started
            await self._app(scope, receive, send)
            return
        scope[CONNECTION] = connection
        connection.request_started()
        try:
            if connection.refused:
                await self._refuse(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        finally:
            if scope["type"] == "websocket":
                connection.websocket_finished()
            else:
                connection.request_finished()

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in _ALWAYS_SERVED:
            await self._app(scope, receive, _closing(send))
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(_OVERLOAD.response())
        else:
            await discard_body(scope, receive, _MAX_DISCARDED_BYTES, _DISCARD_TIMEOUT_S)
            await _OVERLOAD.response()(scope, receive, _closing(send))


def _closing(send: Send) -> Send:
    """The same `send` with `connection: close` in the response."""

    async def send_and_close(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], _CLOSE]}
        await send(message)

    return send_and_close
