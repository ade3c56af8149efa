"""More clients than a process has room for: told to come back, while it can still open files of its own.

Where a process may open no more files, uvloop closes new connections without a word, and the process
reaches no database and no backend either: the bound is to be met before that.
"""

import asyncio
import resource
import sys
from collections.abc import Callable
from heapq import nsmallest
from math import inf
from typing import Any, cast

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from beacon_lifecycle.http_deadlines import ClientDeadlines, ClientTimeouts
from beacon_lifecycle.http_readers import WatchedReaders

log = structlog.get_logger(__name__)

ALWAYS_OPEN = frozenset({b"/healthz", b"/readyz", b"/metrics"})  # for those who watch the process
MOST = 4_096
IDLE_S = 5.0  # a client that has asked for nothing for so long makes room for another
_LOOK_EVERY_S = 1.0
_TO_SEND_IT_S = 2.0  # for the rest of a body that is not wanted
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 20\r\nconnection: close\r\n\r\n"
    b"too many connections"
)


def connections_allowed(wanted: int = MOST) -> int:
    """Half of the files that the process may open; how many that are is raised as far as it is needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = files_for(wanted, soft, hard)
    if files != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    if files == resource.RLIM_INFINITY or wanted <= files // 2:
        return wanted
    allowed = max(1, files // 2)
    log.warning("connections_exceed_open_files", wanted=wanted, files=files, allowed=allowed)
    return allowed


def files_for(connections: int, soft: int, hard: int) -> int:
    """How many a process may open that is to serve so many: never fewer, nor more than it is allowed."""
    if soft == resource.RLIM_INFINITY:
        return soft
    most = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    return max(soft, min(2 * connections, most))


class Crowd:
    """How many connections are served, and what is said to those beyond; `refused` is told of each."""

    def __init__(self, most: int, refusal: bytes = _FULL, refused: Callable[[], None] = lambda: None) -> None:
        self.most = most
        self.spare = most // 8 + 8  # places for those who are told; beyond, connections end without a word
        self.refusal = refusal
        self.refused = refused
        self._looked_at = -inf

    def make_room(self, connections: set[Any], now: float) -> bool:
        """Whether some of those that have been idle for longest were closed, and are not counted any more;
        looks once a second at most.
        """
        if now < self._looked_at + _LOOK_EVERY_S:
            return False
        self._looked_at = now
        idle = [
            connection
            for connection in connections
            if isinstance(connection, ClientDeadlines) and connection.idle_since() <= now - IDLE_S
        ]
        for connection in nsmallest(self.spare, idle, key=ClientDeadlines.idle_since):
            connection.transport.close()
            connections.discard(connection)  # more may come before it is lost
        return bool(idle)


class Doorkeeper(asyncio.Protocol):
    """Decides when a connection is there who serves it: many may be accepted before the first is counted."""

    crowd: Crowd
    served: type[HttpToolsProtocol]
    turned_away: "type[TurnedAway]"

    def __init__(self, server_state: ServerState, **others: Any) -> None:
        self._server_state = server_state
        self._others = others

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        crowd, present = self.crowd, self._server_state.connections
        now = asyncio.get_running_loop().time()
        if len(present) < crowd.most or crowd.make_room(present, now):
            self._hand_over(transport, self.served)
            return
        crowd.refused()
        if len(present) < crowd.most + crowd.spare:
            self._hand_over(transport, self.turned_away)
        else:
            cast("asyncio.Transport", transport).abort()

    def _hand_over(self, transport: asyncio.BaseTransport, to: type[HttpToolsProtocol]) -> None:
        protocol = to(server_state=self._server_state, **self._others)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)  # type: ignore[arg-type]


def doorkeeper(served: type[HttpToolsProtocol], timeouts: ClientTimeouts, crowd: Crowd) -> type[Doorkeeper]:
    """The protocol of a server whose connections are `served`, as far as there is room."""
    members = {
        "crowd": crowd,
        "served": type(served.__name__, (served,), {"timeouts": timeouts}),
        "turned_away": type("TurnedAway", (TurnedAway,), {"timeouts": timeouts, "crowd": crowd}),
    }
    return type("Doorkeeper", (Doorkeeper,), members)


class TurnedAway(WatchedReaders):
    """Hears one request. Whoever watches the process is answered, all others learn that there is no room."""

    crowd: Crowd
    _heard = False

    def begin_request(self) -> None:
        if self._heard:
            return
        if self.url in ALWAYS_OPEN:
            self._heard = True
            super().begin_request()
            self.cycle.keep_alive = False
        else:
            self._refuse()

    def take_body(self, body: bytes) -> None:
        if self.cycle is not None:
            super().take_body(body)

    def end_request(self) -> None:
        if self.cycle is not None:
            super().end_request()
        else:
            self.transport.close()

    def handle_websocket_upgrade(self) -> None:
        self._refuse()
        self.transport.close()

    def _refuse(self) -> None:
        """Closed with a body still on its way, the connection would be reset before the answer is read."""
        self._heard = True
        self.transport.write(self.crowd.refusal)
        self._look_no_more()
        self.loop.call_later(_TO_SEND_IT_S, self.transport.abort)
