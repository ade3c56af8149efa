"""A load of HTTP requests with little CPU cost of its own."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import cast
from urllib.parse import urlsplit

END = b"\r\n\r\n"
LENGTH = b"content-length: "


def post(url: str, path: str, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> bytes:
    """A complete request as bytes."""
    lines = [
        f"POST {path} HTTP/1.1",
        f"host: {urlsplit(url).netloc}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return "\r\n".join(lines).encode() + END + body


async def load(url: str, requests: Iterator[bytes], in_flight: int, took: list[float] | None = None) -> float:
    """Send all requests over so many connections, one request at a time on each; returns the seconds.

    `took` gets the seconds of each request.
    """
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    callers = [_Caller(requests, loop.create_future(), took) for _ in range(in_flight)]
    for caller in callers:
        await loop.create_connection(caller.itself, parts.hostname or "", parts.port or 80)
    started = time.monotonic()
    for caller in callers:
        caller.begin()
    try:
        await asyncio.gather(*(caller.ended for caller in callers))
        return time.monotonic() - started
    finally:
        for caller in callers:
            caller.transport.close()


class KeptConnection:
    """One kept-alive connection for occasional requests."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._transport: asyncio.Transport | None = None

    async def send(self, request: bytes) -> None:
        """Returns when it is answered."""
        loop = asyncio.get_running_loop()
        caller = _Caller(iter([request]), loop.create_future(), None)
        if self._transport is None:
            host, port = self._url.hostname or "", self._url.port or 80
            self._transport, _ = await loop.create_connection(caller.itself, host, port)
        else:
            caller.connection_made(self._transport)
            self._transport.set_protocol(caller)
        caller.begin()
        await caller.ended

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class _Caller(asyncio.Protocol):
    """One connection: the next request is sent after the last response."""

    transport: asyncio.Transport

    def __init__(
        self, requests: Iterator[bytes], ended: "asyncio.Future[None]", took: list[float] | None
    ) -> None:
        self.ended = ended
        self._took = took
        self._sent = 0.0
        self._requests = requests
        self._received = b""

    def itself(self) -> "_Caller":
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def begin(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._sent = time.monotonic()
            self.transport.write(request)
        elif not self.ended.done():
            self.ended.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        size = answer_size(self._received)
        if size is None or len(self._received) < size:
            return
        answer, self._received = self._received, b""
        if answer[9:10] != b"2":
            self._fail(RuntimeError(answer[:500].decode(errors="replace")))
        else:
            if self._took is not None:
                self._took.append(time.monotonic() - self._sent)
            self.begin()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionError("the server closed the connection"))

    def _fail(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)


def answer_size(received: bytes) -> int | None:
    """The length of the whole response; None while its head is incomplete."""
    head = received.find(END)
    if head < 0:
        return None
    start = received.lower().find(LENGTH, 0, head)
    if start < 0:
        return head + len(END)
    length = received[start + len(LENGTH) : received.index(b"\r\n", start)]
    return head + len(END) + int(length)
