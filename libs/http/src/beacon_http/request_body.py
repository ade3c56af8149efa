"""Limits on request bodies, in bytes and in time, for every route of an application."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CLOSE = {"connection": "close"}
_RESTART_S = 5


class BodyLimits:
    """The limits of one process, and the requests whose bodies are incomplete.

    `max_bytes_below` has other sizes for the paths below a prefix. Below `timed_by_part`, the timeout applies
    to each part of a body instead of the whole: an upload may take long, but not stall.
    """

    def __init__(
        self,
        max_bytes: int,
        timeout_s: float,
        max_bytes_below: Mapping[str, int] | None = None,
        timed_by_part: tuple[str, ...] = (),
    ) -> None:
        self.max_bytes = max_bytes
        self._max_bytes_below = dict(max_bytes_below or {})
        self.timeout_s = timeout_s
        self.timed_by_part = timed_by_part
        self.receiving: set[asyncio.Timeout] = set()
        self.stopping = False

    def stop(self) -> None:
        """The server stops: requests with incomplete bodies are refused now."""
        self.stopping = True
        for timeout in self.receiving:
            timeout.reschedule(0.0)

    def max_bytes_of(self, path: str) -> int:
        below = (size for prefix, size in self._max_bytes_below.items() if path.startswith(prefix))
        return next(below, self.max_bytes)

    def too_large(self, max_bytes: int) -> HTTPException:
        return HTTPException(413, f"the body is larger than {max_bytes} bytes, the limit", _CLOSE)

    def incomplete(self) -> HTTPException:
        if self.stopping:
            return HTTPException(
                503, "the server is stopping; repeat the request", {**_CLOSE, "retry-after": str(_RESTART_S)}
            )
        return HTTPException(
            408, f"the body was incomplete after {self.timeout_s:g} s, the limit; repeat the request", _CLOSE
        )


class RequestBodyMiddleware:
    """Refuses bodies that are too large or arrive too slowly.

    The refusal is raised in the application's `receive` as HTTPException, the only error that FastAPI passes
    on while it reads a body, so that the application renders it like its other errors.
    """

    def __init__(self, app: ASGIApp, limits: BodyLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            receive = _LimitedBody(scope, receive, self._limits)
        await self._app(scope, receive, send)


class _LimitedBody:
    """One request's `receive`."""

    def __init__(self, scope: Scope, receive: Receive, limits: BodyLimits) -> None:
        self._scope = scope
        self._receive = receive
        self._limits = limits
        self._max_bytes = limits.max_bytes_of(scope["path"])
        self._timed_by_part = scope["path"].startswith(limits.timed_by_part)
        self._deadline: float | None = None
        self._received = 0
        self._complete = False

    async def __call__(self) -> Message:
        if self._complete:
            return await self._receive()
        if self._deadline is None and (content_length(self._scope) or 0) > self._max_bytes:
            await self._refuse()
        message = await self._next()
        if self._received > self._max_bytes:
            await self._refuse()
        return message

    async def _next(self) -> Message:
        """The next part of the body. Raises 408 after the deadline, 503 when the server stops."""
        limits = self._limits
        if self._deadline is None or self._timed_by_part:
            self._deadline = asyncio.get_running_loop().time() + limits.timeout_s
        timeout = asyncio.timeout_at(0.0 if limits.stopping else self._deadline)
        limits.receiving.add(timeout)
        try:
            async with timeout:
                message = await self._receive()
        except TimeoutError:
            raise limits.incomplete() from None
        finally:
            limits.receiving.discard(timeout)
        self._received += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        return message

    async def _refuse(self) -> None:
        """A client that waits for `100 Continue` gets the refusal instead; others have to send first."""
        if not _expects_continue(self._scope):
            await self._discard()
        raise self._limits.too_large(self._max_bytes)

    async def _discard(self) -> None:
        """A client that is still sending does not read the response, and would find the connection reset."""
        self._deadline = None
        while not self._complete:
            await self._next()


async def read_body(receive: Receive) -> bytearray:
    """The whole body, of which no copy is kept. Raises ClientDisconnect if it does not arrive completely."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def discard_body(scope: Scope, receive: Receive, max_bytes: int, timeout_s: float) -> None:
    """Read the body of a request that is refused, within limits: then the client reads the response."""
    received, more = 0, not _expects_continue(scope)
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while more and received < max_bytes:
                message = await receive()
                received += len(message.get("body", b""))
                more = message.get("more_body", False)


def content_length(scope: Scope) -> int | None:
    """The announced length of the body; None for chunked bodies."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None


def _expects_continue(scope: Scope) -> bool:
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in scope["headers"])
