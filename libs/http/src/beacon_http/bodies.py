"""Reading what a client sends: bounded, in bytes and in time."""

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beacon_http.problems import HttpProblemError
from beacon_lifecycle.http_deadlines import BODY_LATE

# A client that is still sending does not see an answer: so much more is read and thrown away first.
_PATIENCE = 8
_CLOSE = ((b"connection", b"close"),)


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body; of one that is longer than the limit no more than the limit is held."""
    receive = _in_time(scope, receive)
    too_long = (announced_length(scope) or 0) > limit
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body") and not too_long:
        message = await receive()
        body += message.get("body", b"")
        too_long = len(body) > limit
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    if too_long or len(body) > limit:
        if message.get("more_body"):
            await _skip(receive, limit * _PATIENCE)
        raise _too_large(limit)
    return body


def _in_time(scope: Scope, receive: Receive) -> Receive:
    """The connection keeps the time, and wakes whoever reads when it is over."""

    async def piece() -> Message:
        message = await receive()
        if BODY_LATE in scope:
            raise too_slow(scope[BODY_LATE])
        return message

    return piece


def bounded(body: bytes, limit: int) -> bytes:
    """The same for a body that is here already."""
    if len(body) > limit:
        raise _too_large(limit)
    return body


async def _skip(receive: Receive, most: int) -> None:
    skipped = 0
    while skipped < most:
        message = await receive()
        skipped += len(message.get("body", b""))
        if not message.get("more_body"):
            return


def announced_length(scope: Scope) -> int | None:
    """What the client says its body has; None where it does not say."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None


def _too_large(limit: int) -> HttpProblemError:
    # What was not read cannot be skipped: the connection ends with this answer.
    return HttpProblemError(413, "body_too_large", f"the body may have {limit} bytes", headers=_CLOSE)


def too_slow(seconds: float) -> HttpProblemError:
    return HttpProblemError(408, "body_too_slow", _late(seconds), headers=_CLOSE)


def _late(seconds: float) -> str:
    return f"the body was not here after {seconds:g} s"


class BoundedBodies:
    """Refuses bodies above the limit and late ones, for routes that the framework reads for us."""

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
            # The framework reads the body: it passes on its own kind of error only.
            if BODY_LATE in scope:
                raise HTTPException(408, _late(scope[BODY_LATE]), headers={"connection": "close"})
            if left < 0:
                detail = f"the body may have {self._limit} bytes"
                raise HTTPException(413, detail, headers={"connection": "close"})
            return message

        await self._app(scope, counted, send)
