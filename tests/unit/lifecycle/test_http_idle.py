"""Connections on which nobody asks any more."""

from asyncio import AbstractEventLoop, Event, Transport
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from beacon_lifecycle.http_heads import NOTHING
from beacon_lifecycle.http_idle import IdleConnections

KEEP_ALIVE_S = 120


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
        self.timers: list[Due] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> Due:
        self.timers.append(Due(self.now + seconds, call))
        return self.timers[-1]

    def at(self, moment: float) -> None:
        self.now = moment
        due = [timer for timer in self.timers if timer.at <= moment]
        self.timers = [timer for timer in self.timers if timer.at > moment]
        for timer in due:
            if not timer.cancelled:
                timer.call()


class OpenTransport(Transport):
    def __init__(self) -> None:
        super().__init__({"socket": None})
        self.closed = False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def loop() -> HandLoop:
    return HandLoop()


@pytest.fixture
def transport() -> OpenTransport:
    return OpenTransport()


@pytest.fixture
def connection(loop: HandLoop, transport: OpenTransport) -> IdleConnections:
    async def app(scope: Scope, receive: Receive, send: Send) -> None: ...

    made = IdleConnections(
        config=uvicorn.Config(app, log_config=None, timeout_keep_alive=KEEP_ALIVE_S),
        server_state=ServerState(),
        app_state={},
        _loop=cast("AbstractEventLoop", loop),
    )
    made.connection_made(transport)
    return made


def ask(connection: IdleConnections) -> None:
    connection.reading = NOTHING
    connection.cycle = SimpleNamespace(response_complete=False, message_event=Event())


def answer(connection: IdleConnections) -> None:
    ask(connection)
    connection.cycle.response_complete = True
    connection.on_response_complete()


def test_it_is_closed_when_its_time_is_over(
    connection: IdleConnections, loop: HandLoop, transport: OpenTransport
) -> None:
    answer(connection)
    loop.at(KEEP_ALIVE_S - 1)
    assert not transport.closed
    loop.at(KEEP_ALIVE_S)
    assert transport.closed


def test_many_answers_share_a_timer_and_the_last_one_counts(
    connection: IdleConnections, loop: HandLoop, transport: OpenTransport
) -> None:
    for moment in range(0, 101, 10):
        loop.at(moment)
        answer(connection)
    assert len(loop.timers) == 1

    loop.at(KEEP_ALIVE_S)
    loop.at(100 + KEEP_ALIVE_S - 1)
    assert not transport.closed
    loop.at(100 + KEEP_ALIVE_S)
    assert transport.closed


def test_one_that_waits_for_its_answer_is_not_idle(
    connection: IdleConnections, loop: HandLoop, transport: OpenTransport
) -> None:
    answer(connection)
    ask(connection)
    loop.at(KEEP_ALIVE_S)
    loop.at(1_000)
    assert not transport.closed

    answer(connection)
    loop.at(1_000 + KEEP_ALIVE_S)
    assert transport.closed


def test_one_that_has_begun_to_ask_is_not_idle(
    connection: IdleConnections, loop: HandLoop, transport: OpenTransport
) -> None:
    answer(connection)
    connection.data_received(b"POST /inference HTTP/1.1\r\nhost: ")
    loop.at(KEEP_ALIVE_S)
    assert not transport.closed


@pytest.mark.parametrize("sent", [b"", b"half", b"whole body"])
def test_one_that_was_answered_before_its_body_came_is_idle(
    connection: IdleConnections,
    loop: HandLoop,
    transport: OpenTransport,
    monkeypatch: pytest.MonkeyPatch,
    sent: bytes,
) -> None:
    """Who is refused sends no body, or not all of it: nothing more would ever end the connection."""
    monkeypatch.setattr(connection, "_start_asgi_task", lambda *_: None)
    connection.data_received(b"POST /inference HTTP/1.1\r\ncontent-length: 10\r\n\r\n")
    connection.cycle.response_complete = True
    connection.on_response_complete()
    connection.data_received(sent)

    loop.at(KEEP_ALIVE_S - 1)
    assert not transport.closed
    loop.at(KEEP_ALIVE_S)
    assert transport.closed


def test_one_that_is_lost_leaves_no_timer(connection: IdleConnections, loop: HandLoop) -> None:
    answer(connection)
    connection.connection_lost(None)
    assert [timer.cancelled for timer in loop.timers] == [True]
