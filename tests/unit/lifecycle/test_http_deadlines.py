"""How long a client may keep a connection waiting, by a clock that the test moves."""

from asyncio import AbstractEventLoop, Transport
from collections.abc import Callable
from typing import cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from beacon_lifecycle.http_deadlines import ClientDeadlines, ClientTimeouts
from beacon_lifecycle.http_heads import MOST_AHEAD, MOST_HEAD, NOTHING

KEEP_ALIVE_S = 120
HEAD_S = 10
BODY_S = 30
ASK = b"GET / HTTP/1.1\r\n\r\n"
HALF_A_HEAD = b"POST / HTTP/1.1\r\nhost: "
HEAD_OF_FOUR = b"POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\n"


class Due:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandLoop:
    """A loop whose time the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.made = 0
        self.timers: list[Due] = []

    def time(self) -> float:
        return self.now

    def call_at(self, moment: float, call: Callable[[], None]) -> Due:
        self.made += 1
        self.timers.append(Due(moment, call))
        return self.timers[-1]

    def at(self, moment: float) -> None:
        while due := [timer for timer in self.timers if timer.at <= moment and not timer.cancelled]:
            first = min(due, key=lambda timer: timer.at)
            self.timers.remove(first)
            self.now = first.at
            first.call()
        self.now = moment

    @property
    def waiting(self) -> list[Due]:
        return [timer for timer in self.timers if not timer.cancelled]


class OpenTransport(Transport):
    def __init__(self) -> None:
        super().__init__({"socket": None})
        self.closed = False

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Connection(ClientDeadlines):
    """Has no application: the test answers."""

    timeouts = ClientTimeouts(HEAD_S, BODY_S)

    def _start_asgi_task(self, *_: object) -> None: ...

    def answer(self) -> None:
        self.cycle.response_complete = True
        self.on_response_complete()


@pytest.fixture
def loop() -> HandLoop:
    return HandLoop()


@pytest.fixture
def transport() -> OpenTransport:
    return OpenTransport()


@pytest.fixture
def connection(loop: HandLoop, transport: OpenTransport) -> Connection:
    async def app(scope: Scope, receive: Receive, send: Send) -> None: ...

    made = Connection(
        config=uvicorn.Config(app, log_config=None, timeout_keep_alive=KEEP_ALIVE_S),
        server_state=ServerState(),
        app_state={},
        _loop=cast("AbstractEventLoop", loop),
    )
    made.connection_made(transport)
    return made


class Times:
    """Asserts that the connection is closed at a moment and not before it."""

    def __init__(self, loop: HandLoop, transport: OpenTransport) -> None:
        self._loop = loop
        self._transport = transport

    def closed_at(self, moment: float) -> bool:
        self._loop.at(moment - 0.5)
        assert not self._transport.closed
        self._loop.at(moment)
        return self._transport.closed

    def open_for_long(self) -> bool:
        self._loop.at(self._loop.now + 100_000)
        return not self._transport.closed


@pytest.fixture
def times(loop: HandLoop, transport: OpenTransport) -> Times:
    return Times(loop, transport)


def test_who_asks_nothing_is_late(connection: Connection, times: Times) -> None:
    assert times.closed_at(HEAD_S)


def test_a_head_has_its_time_from_the_connection_and_no_more_for_each_byte(
    connection: Connection, loop: HandLoop, times: Times
) -> None:
    for moment, byte in enumerate(HALF_A_HEAD[: HEAD_S - 1]):
        loop.at(moment)
        connection.data_received(bytes([byte]))
    assert times.closed_at(HEAD_S)


@pytest.mark.parametrize("before", [b"", b"\r\n"])
def test_the_next_head_has_its_time_from_its_first_byte(
    connection: Connection, loop: HandLoop, times: Times, before: bytes
) -> None:
    connection.data_received(ASK)
    connection.answer()
    loop.at(50)
    connection.data_received(before)
    loop.at(100)
    connection.data_received(HALF_A_HEAD)
    loop.at(105)
    connection.data_received(b"more")
    assert times.closed_at(100 + HEAD_S)


def test_line_ends_between_requests_keep_no_connection(
    connection: Connection, loop: HandLoop, times: Times
) -> None:
    connection.data_received(ASK)
    connection.answer()
    for moment in range(1, KEEP_ALIVE_S - 1):
        loop.at(moment)
        connection.data_received(b"\r\n")
    assert times.closed_at(KEEP_ALIVE_S)


def test_half_a_head_that_came_with_a_request_has_its_time_from_the_answer(
    connection: Connection, loop: HandLoop, times: Times
) -> None:
    connection.data_received(ASK + HALF_A_HEAD)
    loop.at(1_000)
    connection.answer()
    assert times.closed_at(1_000 + HEAD_S)


def test_one_that_is_kept_is_closed_when_its_time_is_over(connection: Connection, times: Times) -> None:
    connection.data_received(ASK)
    connection.answer()
    assert times.closed_at(KEEP_ALIVE_S)


def test_many_answers_share_a_timer_and_the_last_one_counts(
    connection: Connection, loop: HandLoop, times: Times
) -> None:
    for moment in range(100):
        loop.at(moment / 100)
        connection.data_received(ASK)
        connection.answer()
        connection.data_received(HEAD_OF_FOUR)
        connection.data_received(b"body")
        connection.answer()
    assert loop.made == 1
    assert times.closed_at(0.99 + KEEP_ALIVE_S)


def test_who_waits_for_an_answer_is_never_late(connection: Connection, loop: HandLoop, times: Times) -> None:
    connection.data_received(HEAD_OF_FOUR + b"body")
    assert times.open_for_long()
    connection.answer()
    assert times.closed_at(loop.now + KEEP_ALIVE_S)


@pytest.mark.parametrize("sent", [b"", b"bo"])
def test_one_that_was_answered_before_its_body_came_has_the_time_of_a_body(
    connection: Connection, loop: HandLoop, times: Times, sent: bytes
) -> None:
    """Who is refused sends no body, or not all of it: nothing more would ever end the connection."""
    connection.data_received(HEAD_OF_FOUR)
    loop.at(5)
    connection.answer()
    loop.at(10)
    connection.data_received(sent)
    assert times.closed_at(5 + BODY_S)


def test_one_that_was_answered_before_its_body_came_may_still_ask_again(
    connection: Connection, loop: HandLoop, times: Times
) -> None:
    connection.data_received(HEAD_OF_FOUR)
    connection.answer()
    loop.at(10)
    connection.data_received(b"body")
    assert times.closed_at(10 + KEEP_ALIVE_S)


def test_what_follows_a_body_without_end_is_cut_before_the_time_of_the_body_is_over(
    connection: Connection, transport: OpenTransport
) -> None:
    connection.data_received(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nx: ")
    connection.data_received(b"a" * MOST_HEAD)
    assert not transport.closed
    connection.data_received(b"a")
    assert transport.closed


def test_a_body_is_not_counted_as_what_follows_it(connection: Connection, transport: OpenTransport) -> None:
    connection.data_received(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n" % (4 * MOST_HEAD))
    for _ in range(4):
        connection.data_received(b"a" * MOST_HEAD)
    connection.data_received(b"\r\n0\r\nx: y\r\n\r\n")
    assert (len(connection.cycle.body), connection.reading) == (4 * MOST_HEAD, NOTHING)
    assert not transport.closed


def test_one_that_was_refused_and_does_not_read_it_is_looked_at_once(
    connection: Connection, loop: HandLoop, transport: OpenTransport
) -> None:
    connection.data_received(b"CONNECT far.away:443 HTTP/1.1\r\n\r\n")
    assert transport.closed
    loop.at(BODY_S)
    assert loop.waiting == []


def test_one_that_is_lost_leaves_no_timer(connection: Connection, loop: HandLoop) -> None:
    connection.data_received(ASK)
    connection.connection_lost(None)
    connection.answer()
    assert loop.waiting == []


def test_requests_sent_ahead_are_bounded(connection: Connection, transport: OpenTransport) -> None:
    connection.data_received(ASK * (1 + MOST_AHEAD))
    last, _ = connection.pipeline[0]
    assert (len(connection.pipeline), last.keep_alive) == (MOST_AHEAD, True)

    connection.data_received(HEAD_OF_FOUR + b"body" + ASK * 1_000)
    connection.data_received(b"what is this?")
    assert len(connection.pipeline) == MOST_AHEAD
    assert (last.keep_alive, bytes(last.body), transport.closed) == (False, b"", False)


def test_there_is_room_again_when_some_are_answered(connection: Connection) -> None:
    connection.data_received(ASK * (1 + MOST_AHEAD))
    connection.on_response_complete()
    assert len(connection.pipeline) == MOST_AHEAD - 1
    connection.data_received(ASK)
    last, _ = connection.pipeline[0]
    assert (len(connection.pipeline), last.keep_alive) == (MOST_AHEAD, True)
