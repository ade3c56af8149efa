"""Clients on real sockets that stop reading."""

import asyncio
import base64
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import orjson

from tests.fixtures.waiting import within_timeout
from tests.integration.runner_api.harness import Caller

SMALL_BUFFER = 4096
STREAM_IS_OVER = b"0\r\n\r\n"
SOCKET_IS_OVER = (b"number of your last event", b"the job has ended")


def stream_request(caller: Caller, job: str, after: int = 0) -> bytes:
    return (
        f"GET /api/v1/jobs/{job}/events HTTP/1.1\r\nhost: runner\r\naccept: text/event-stream\r\n"
        f"authorization: {caller.http.headers['authorization']}\r\nlast-event-id: {after}\r\n\r\n"
    ).encode()


def socket_request(caller: Caller, job: str, after: int = 0) -> bytes:
    key = base64.b64encode(b"sixteen-byte-key").decode()
    return (
        f"GET /ws/{job}?after={after} HTTP/1.1\r\nhost: runner\r\nupgrade: websocket\r\n"
        f"connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n"
        f"authorization: {caller.http.headers['authorization']}\r\n\r\n"
    ).encode()


class StalledClient:
    """A bare connection with a small buffer; it reads only in `read_until`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    @classmethod
    async def to(cls, address: str, request: bytes) -> Self:
        host, _, port = address.removeprefix("http://").partition(":")
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, (host, int(port)))
        await loop.sock_sendall(connection, request)
        return cls(connection)

    def is_disconnected(self) -> bool:
        """Whether the server has ended the connection. A byte is sent to find out, nothing is read."""
        with suppress(BlockingIOError):
            try:
                self._connection.send(b"\n")
            except ConnectionError:
                return True
        return False

    async def read_until(self, *last: bytes) -> bytes:
        """Everything received up to one of these terminators; then the connection is closed."""
        loop = asyncio.get_running_loop()
        read = bytearray()
        async with within_timeout(f"the server says {last!r}"):
            while not read.endswith(last):
                piece = await loop.sock_recv(self._connection, 65_536)
                assert piece, f"the server went away after {bytes(read[-200:])!r}"
                read += piece
        self.close()
        return bytes(read)

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True, slots=True)
class Received:
    """What one connection received: the numbers of the events, and the end."""

    numbers: list[int]
    last: tuple[str, Any]


def received_by_stream(answer: bytes) -> Received:
    """From a chunked answer with server-sent events."""
    events = [_event(block) for block in _unchunked(answer).split(b"\n\n") if block and block[:1] != b":"]
    return Received([number for number, _, _ in events if number], (events[-1][1], events[-1][2]))


def _event(block: bytes) -> tuple[int, str, Any]:
    fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
    return int(fields.get(b"id", b"0")), fields[b"event"].decode(), orjson.loads(fields[b"data"])


def _unchunked(answer: bytes) -> bytes:
    _, _, rest = answer.partition(b"\r\n\r\n")
    body = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if int(size, 16) == 0:
            return body
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]


def received_by_socket(answer: bytes) -> Received:
    """From the frames of a server, which are not masked."""
    _, _, rest = answer.partition(b"\r\n\r\n")
    numbers: list[int] = []
    while True:
        kind, size, rest = rest[0] & 15, rest[1], rest[2:]
        if size == 126:
            size, rest = int.from_bytes(rest[:2]), rest[2:]
        payload, rest = rest[:size], rest[size:]
        if kind == 1:
            numbers.append(orjson.loads(payload)["seq"])
        elif kind == 8:
            return Received(numbers, (str(int.from_bytes(payload[:2])), payload[2:].decode()))
