"""How many connections a process serves, and who makes room for another."""

import resource
import subprocess
import sys
from asyncio import AbstractEventLoop, Transport
from typing import cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from beacon_lifecycle.http_crowds import IDLE_S, Crowd, files_for
from beacon_lifecycle.http_deadlines import ClientDeadlines

ASK = b"GET / HTTP/1.1\r\n\r\n"
HALF_A_HEAD = b"GET / HTT"


class NoTimer:
    """The deadlines of a connection are not looked at here."""

    def cancel(self) -> None: ...


class HandLoop:
    now = 0.0

    def time(self) -> float:
        return self.now

    def call_at(self, *_: object) -> NoTimer:
        return NoTimer()


class OpenTransport(Transport):
    closed = False
    unread = 0

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Connection(ClientDeadlines):
    """Has no application: the test answers."""

    def _start_asgi_task(self, *_: object) -> None: ...

    def answer(self) -> None:
        self.cycle.response_complete = True
        self.on_response_complete()

    @property
    def is_open(self) -> bool:
        return not self.transport.is_closing()


@pytest.fixture
def loop() -> HandLoop:
    return HandLoop()


def connect(loop: HandLoop, *sent: bytes) -> Connection:
    async def app(scope: Scope, receive: Receive, send: Send) -> None: ...

    made = Connection(
        config=uvicorn.Config(app, log_config=None, timeout_keep_alive=120),
        server_state=ServerState(),
        app_state={},
        _loop=cast("AbstractEventLoop", loop),
    )
    made.connection_made(OpenTransport({"socket": None}))
    for data in sent:
        made.data_received(data)
    return made


def served(loop: HandLoop, at: float, *sent: bytes) -> Connection:
    """One whose first request was answered at this moment, and that has sent something since."""
    made = connect(loop, ASK)
    loop.now = at
    made.answer()
    for data in sent:
        made.data_received(data)
    return made


@pytest.mark.parametrize(
    ("connections", "soft", "hard", "files"),
    [
        (4_096, 1_024, 524_288, 8_192),
        (100, 1_024, 524_288, 1_024),
        (4_096, 1_024, 4_096, 4_096),
        (4_096, 1_024, resource.RLIM_INFINITY, 8_192),
        (4_096, resource.RLIM_INFINITY, resource.RLIM_INFINITY, resource.RLIM_INFINITY),
    ],
)
def test_a_process_may_open_twice_as_many_files_as_it_has_clients(
    connections: int, soft: int, hard: int, files: int
) -> None:
    assert files_for(connections, soft, hard) == files


def test_more_than_it_may_open_is_not_promised() -> None:
    asked = "from beacon_lifecycle.http_crowds import *; print(*map(connections_allowed, (100, 1_000)))"
    said = subprocess.run(
        ["bash", "-c", 'ulimit -n 1024; exec "$0" -c "$1"', sys.executable, asked],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.splitlines()[-1] == "100 512"
    assert "connections_exceed_open_files" in said.stdout


def test_those_idle_for_longest_make_room(loop: HandLoop) -> None:
    crowd = Crowd(8)
    idle = [served(loop, at) for at in range(20)]
    assert crowd.make_room(set(idle), 100.0)
    assert [connection.is_open for connection in idle] == [False] * crowd.spare + [True] * (20 - crowd.spare)


def test_who_is_in_the_middle_of_something_stays(loop: HandLoop) -> None:
    busy = [
        connect(loop),
        connect(loop, HALF_A_HEAD),
        connect(loop, ASK),
        served(loop, 0, HALF_A_HEAD),
        served(loop, 0, ASK),
        served(loop, 100 - IDLE_S + 0.1),
    ]
    assert not Crowd(8).make_room(set(busy), 100.0)
    assert all(connection.is_open for connection in busy)


def test_who_has_not_read_its_answer_is_not_idle(loop: HandLoop) -> None:
    """Closing would wait for it: nobody leaves by that, and the next one would be one too many."""
    slow = served(loop, 0)
    slow.transport.unread = 1  # type: ignore[attr-defined]
    assert not Crowd(8).make_room({slow}, 100.0)
    assert slow.is_open


def test_who_made_room_is_not_counted_any_more(loop: HandLoop) -> None:
    """Its connection is lost a moment later, and many may come in between."""
    present: set[object] = {served(loop, 0), served(loop, 0), busy := connect(loop)}
    assert Crowd(8).make_room(present, 100.0)
    assert present == {busy}


def test_nobody_is_looked_for_twice_within_a_second(loop: HandLoop) -> None:
    crowd = Crowd(8)
    assert not crowd.make_room(set(), 100.0)
    idle = served(loop, 0)
    assert not crowd.make_room({idle}, 100.9)
    assert crowd.make_room({idle}, 101.0)
