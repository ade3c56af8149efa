"""The load generator parses responses in pieces of any size."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from benchmarks.harness.http_load import answer_size, load, post

ANSWER = b"HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nhello"


def test_a_head_that_is_not_complete_has_no_size_yet() -> None:
    assert answer_size(ANSWER[:30]) is None


def test_the_size_counts_head_and_body() -> None:
    assert answer_size(ANSWER) == len(ANSWER)


class Server:
    """Answers each request with the same bytes, in pieces, and records requests."""

    def __init__(self, answer: bytes) -> None:
        self.seen: list[bytes] = []
        self._answer = answer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        handled: list[asyncio.Task[None]] = []

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            handled.append(asyncio.ensure_future(self._converse(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            await asyncio.gather(*handled)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                self.seen.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(3))
                for start in range(0, len(self._answer), 7):
                    writer.write(self._answer[start : start + 7])
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def test_every_request_is_answered_once() -> None:
    server = Server(ANSWER)
    async with server.running() as url:
        await load(url, (post(url, "/x", b"abc") for _ in range(20)), in_flight=3)

    assert len(server.seen) == 20
    assert all(request.endswith(b"\r\n\r\nabc") for request in server.seen)


async def test_a_refusal_is_an_error() -> None:
    server = Server(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
    async with server.running() as url:
        with pytest.raises(RuntimeError, match="503"):
            await load(url, iter([post(url, "/x", b"abc")]), in_flight=1)
