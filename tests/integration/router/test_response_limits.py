"""Misbehaving backends cannot fill the router's memory, however they frame their responses."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from beacon_config.mappings import HttpMapping
from beacon_router.backends import BackendClient, BackendError
from beacon_router.service.streams import StreamSink
from tests.fixtures.waiting import until, within_timeout
from tests.integration.router.backend_calls import backend_at, open_client, spec_of
from tests.integration.router.raw_server import Connection, Handler, server_that

CALL = spec_of("r-1", "m", b'{"prompt":"Why?"}')
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
PIECE_BYTES = 65_536
MAX_SENT_BYTES = 16_000_000
MAX_MEMORY_BYTES = 8_000_000
"""Above the limits and the buffers of one connection, of client and server together."""


@pytest.fixture
async def client() -> AsyncIterator[BackendClient]:
    async with open_client() as opened:
        yield opened


def repeating(start: bytes, unit: bytes, max_bytes: int = MAX_SENT_BYTES) -> Handler:
    """Sends `start`, then `unit` until the client disconnects, or up to `max_bytes`."""
    piece = unit * (PIECE_BYTES // len(unit))

    async def handler(connection: Connection) -> None:
        await connection.request()
        await connection.send(start)
        for _ in range(max_bytes // len(piece)):
            await connection.send(piece)

    return handler


@contextmanager
def bounded_memory(max_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < max_bytes


ENDLESS = [
    (HEAD + b"x: ", b"y"),
    (HEAD, b"y"),
    (HEAD, b"x: y\r\n"),
    (HEAD + b"x:", b" y\r\n"),
    (b"HTTP/1.1 200 ", b"y"),
    (b"HTTP/1.1 100 Continue\r\n", b"x: y\r\n"),
    (CHUNKED + b"0\r\nx: ", b"y"),
    (CHUNKED + b"0\r\n", b"x: y\r\n"),
    (CHUNKED + b"0\r\n", b"y"),
    (CHUNKED + b"1;x=", b"y"),
    (CHUNKED, b"1;x=yyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n \r\n"),
    (CHUNKED, b"2\r\nyy\r\n"),
    (HEAD + b"\r\n", b"y"),
]
ENDLESS_NAMES = [
    "header value",
    "header name",
    "headers",
    "folded header",
    "reason",
    "headers of an interim response",
    "trailer value",
    "trailers",
    "trailer name",
    "chunk extension",
    "chunk extensions",
    "tiny chunks",
    "body",
]


@pytest.mark.parametrize(("start", "unit"), ENDLESS, ids=ENDLESS_NAMES)
async def test_an_endless_response_fails_in_bounded_memory(
    start: bytes, unit: bytes, client: BackendClient
) -> None:
    async with server_that(repeating(start, unit)) as server, within_timeout("the call fails"):
        backend = backend_at("modal", server.url, client, max_response_bytes=100_000)
        with bounded_memory(MAX_MEMORY_BYTES), pytest.raises(BackendError) as failed:
            await backend.run(CALL)
        await until(lambda: server.open == 0, "the connection is closed")

    assert failed.value.code in ("bad_payload", "connection_lost")


async def test_endless_interim_responses_need_bounded_memory(client: BackendClient) -> None:
    """The client reads them until the backend or the run timeout ends the call, and keeps none."""
    handler = repeating(b"", b"HTTP/1.1 100 Continue\r\n\r\n", max_bytes=2_000_000)
    async with server_that(handler) as server, within_timeout("the call fails"):
        with bounded_memory(MAX_MEMORY_BYTES), pytest.raises(BackendError, match="connection_lost"):
            await backend_at("modal", server.url, client).run(CALL)


async def test_a_body_in_tiny_chunks_needs_a_few_times_its_size(client: BackendClient) -> None:
    size = 500_000
    chunks = b"2\r\nyy\r\n"
    handler = repeating(CHUNKED, chunks, max_bytes=len(chunks) * size)
    async with server_that(handler) as server, within_timeout("the call fails"):
        backend = backend_at("modal", server.url, client, max_response_bytes=size)
        with bounded_memory(6 * size), pytest.raises(BackendError, match="longer than"):
            await backend.run(CALL)


@pytest.mark.parametrize("size", [2, 60_000])
async def test_an_unread_stream_needs_bounded_memory(size: int, client: BackendClient) -> None:
    chunk = b"%x\r\n%b\r\n" % (size, b"y" * size)
    sink = StreamSink()
    stalled = asyncio.Event()
    sink.on_stall(lambda _: stalled.set())
    async with server_that(repeating(CHUNKED, chunk)) as server, within_timeout("the stream stalls"):
        with bounded_memory(MAX_MEMORY_BYTES):
            run = asyncio.ensure_future(backend_at("openai", server.url, client).run(CALL, sink=sink))
            await stalled.wait()
            for _ in range(100):  # the backend continues to send
                await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait([run])


def answering(status: str, body: bytes) -> Handler:
    async def handler(connection: Connection) -> None:
        while await connection.request():
            head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
            await connection.send(head.encode() + b"\r\n\r\n" + body)

    return handler


LONG = b"x" * 60_000
LONG_ERROR = b'{"error":{"message":"%b","type":"%b","code":7}}' % (LONG[:30_000], LONG[:30_000])
DEEP_CONTENT = b"[" * 300 + b"]" * 300


@pytest.mark.parametrize(
    ("dialect", "status", "body"),
    [
        ("openai", "400 No", LONG_ERROR),
        ("openai", "200 OK", b'{"choices":[{"message":{"content":[{"x":%b}]}}]}' % DEEP_CONTENT),
        ("openai", "200 OK", b'{"usage":null,"more":%b,"choices":[{"message":{}}]}' % DEEP_CONTENT),
        ("http", "200 OK", b'{"texts":"%b"}' % LONG),
        ("modal", "200 OK", b'{"success":false,"error":"%b"}' % LONG),
        ("modal", "200 OK", b'{"output":%b}' % DEEP_CONTENT),
    ],
)
async def test_a_failure_is_an_error_with_short_texts(
    dialect: str, status: str, body: bytes, client: BackendClient
) -> None:
    """Failures are kept as long as results, and shown to users."""
    mapping = HttpMapping(output="join(', ', texts)")
    async with server_that(answering(status, body)) as server:
        backend = backend_at(dialect, server.url, client, mapping=mapping if dialect == "http" else None)
        with pytest.raises(BackendError) as failed:
            await backend.run(CALL)

    texts = [failed.value.message, *map(str, (failed.value.error or {}).values())]
    assert sum(map(len, texts)) < 5_000
