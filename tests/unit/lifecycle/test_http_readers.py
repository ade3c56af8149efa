"""Clients that do not read their answers."""

import socket
from asyncio import AbstractEventLoop, Transport
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from beacon_lifecycle.http_readers import WatchedReaders, unread_of


class Look:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandLoop:
    """Keeps what is due later until the test lets it come."""

    deadline: Look  # of the head, the body or the next request

    def __init__(self) -> None:
        self.now = 0.0
        self.looks: list[Look] = []

    def time(self) -> float:
        return self.now

    def call_at(self, moment: float, call: Callable[[], None]) -> Look:
        self.deadline = Look(call)
        return self.deadline

    def call_later(self, seconds: float, call: Callable[[], None]) -> Look:
        assert seconds == 30.0
        self.looks.append(Look(call))
        return self.looks[-1]

    def pass_time(self) -> None:
        due, self.looks = self.looks, []
        for look in due:
            if not look.cancelled:
                look.call()


class FullTransport(Transport):
    """Has bytes that the client has not read."""

    def __init__(self, unread: int, connection: socket.socket | None = None) -> None:
        super().__init__({"socket": connection})
        self.unread = unread
        self.closing = False
        self.aborted = False

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture
def loop() -> HandLoop:
    return HandLoop()


@pytest.fixture
def transport() -> FullTransport:
    return FullTransport(100_000)


@pytest.fixture
def connection(loop: HandLoop, transport: FullTransport) -> WatchedReaders:
    return connected(loop, transport)


@pytest.fixture
def full_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A server's end, in whose kernel no more has room, and the client's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    with client, server:
        server.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                server.send(bytes(65_536))
        yield server, client


def connected(loop: HandLoop, transport: FullTransport) -> WatchedReaders:
    async def app(scope: Scope, receive: Receive, send: Send) -> None: ...

    made = WatchedReaders(
        config=uvicorn.Config(app, log_config=None),
        server_state=ServerState(),
        app_state={},
        _loop=cast("AbstractEventLoop", loop),
    )
    made.connection_made(transport)
    return made


def test_one_who_reads_nothing_between_two_looks_is_left(
    connection: WatchedReaders, loop: HandLoop, transport: FullTransport
) -> None:
    connection.pause_writing()
    loop.pass_time()
    assert not transport.aborted
    loop.pass_time()
    assert transport.aborted


def test_one_who_reads_slowly_is_served(
    connection: WatchedReaders, loop: HandLoop, transport: FullTransport
) -> None:
    connection.pause_writing()
    for _ in range(20):
        loop.pass_time()
        transport.unread -= 1
    assert not transport.aborted


def test_nobody_looks_once_all_is_read(
    connection: WatchedReaders, loop: HandLoop, transport: FullTransport
) -> None:
    connection.pause_writing()
    loop.pass_time()
    connection.resume_writing()
    loop.pass_time()
    assert (loop.looks, transport.aborted) == ([], False)

    connection.pause_writing()
    loop.pass_time()
    assert not transport.aborted, "it has its time anew"


def test_a_close_does_not_wait_for_one_who_has_little_left_to_read(
    connection: WatchedReaders, loop: HandLoop, transport: FullTransport
) -> None:
    """The transport asks nobody to pause for so little, and closes when it is sent."""
    transport.unread = 10
    loop.now = 1_000.0
    loop.deadline.call()
    assert (transport.closing, transport.aborted) == (True, False)
    loop.pass_time()
    transport.unread -= 1
    loop.pass_time()
    assert not transport.aborted, "it reads"
    loop.pass_time()
    assert transport.aborted


def test_a_close_does_not_wait_for_one_who_stops_before_the_end(
    connection: WatchedReaders, loop: HandLoop, transport: FullTransport
) -> None:
    """It has read for so long that nothing else looks at it, and so much that the transport resumes."""
    transport.close()
    connection.pause_writing()
    loop.now = 1_000.0
    loop.deadline.call()
    loop.pass_time()
    transport.unread = 10
    connection.resume_writing()
    loop.pass_time()
    assert not transport.aborted, "it has read"
    loop.pass_time()
    assert transport.aborted


def test_what_leaves_the_kernel_alone_is_read_too(
    loop: HandLoop, full_pair: tuple[socket.socket, socket.socket]
) -> None:
    """It asks for more when a third of its megabytes is gone: a slow client takes minutes for so much."""
    server, client = full_pair
    transport = FullTransport(100_000, server)
    connection = connected(loop, transport)
    connection.pause_writing()
    for _ in range(3):
        loop.pass_time()
        before = unread_of(transport)
        while unread_of(transport) == before:
            client.recv(4_096)
    loop.pass_time()
    assert not transport.aborted
    loop.pass_time()
    assert transport.aborted
