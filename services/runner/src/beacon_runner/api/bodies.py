"""Reading what a client sends: bounded."""

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beacon_runner.api.problems import HttpProblemError


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body; one that is longer than the limit is refused without being held."""
    if _announced(scope) > limit:
        raise _too_large(limit)
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body") and len(body) <= limit:
        message = await receive()
        body += message.get("body", b"")
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


def _too_large(limit: int) -> HttpProblemError:
    # What was not read cannot be skipped: the connection ends with this answer.
    close = ((b"connection", b"close"),)
    return HttpProblemError(413, "body_too_large", f"the body may have {limit} bytes", headers=close)


class BoundedBodies:
    """Refuses bodies above the limit for routes that the framework reads for us."""

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        left = self._limit

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                # The framework reads the body: it passes on its own kind of error only.
                detail = f"the body may have {self._limit} bytes"
                raise HTTPException(413, detail, headers={"connection": "close"})
            return message

        await self._app(scope, counted, send)
