"""The open connections of a server: how many there may be, and how long one may be open without a request.

uvicorn has no timeout for the headers of a request, and its concurrency limit refuses requests on connections
that it has already accepted. `TrackedConnection` wraps uvicorn's protocol by asyncio's protocol interface.
"""

import asyncio
from collections.abc import Callable
from typing import cast

ClientAddress = tuple[str, int]
CreateProtocol = Callable[[], asyncio.Protocol]


class ConnectionLimit:
    """Registry of the open connections by client address.

    At `max_connections` the connection that has been idle for longest is closed. If there is none, up to
    `surplus` further connections are accepted to answer their requests with 503; the rest are aborted.
    """

    def __init__(
        self,
        max_connections: int,
        *,
        head_timeout_s: float,
        idle_timeout_s: float,
        evict_after_s: float,
        on_refused: Callable[[], None],
    ) -> None:
        self.max_connections = max_connections
        self.surplus = max_connections // 8 + 8
        self.head_timeout_s = head_timeout_s
        self.idle_timeout_s = idle_timeout_s
        self._evict_after_s = evict_after_s
        self._on_refused = on_refused
        self._by_client: dict[ClientAddress, TrackedConnection] = {}
        self._idle_since: dict[TrackedConnection, float] = {}  # in the order of time

    def __len__(self) -> int:
        return len(self._by_client)

    def find(self, client: ClientAddress) -> "TrackedConnection | None":
        return self._by_client.get(client)

    def add(self, connection: "TrackedConnection") -> bool:
        """False: the connection is to be aborted."""
        if len(self) >= self.max_connections and not self._evict_idle():
            self._on_refused()
            connection.refused = True
        if len(self) >= self.max_connections + self.surplus:
            return False
        self._by_client[connection.client] = connection
        return True

    def remove(self, connection: "TrackedConnection") -> None:
        self.mark_busy(connection)
        if self._by_client.get(connection.client) is connection:
            del self._by_client[connection.client]

    def mark_idle(self, connection: "TrackedConnection") -> None:
        self._idle_since[connection] = asyncio.get_running_loop().time()

    def mark_busy(self, connection: "TrackedConnection") -> None:
        self._idle_since.pop(connection, None)

    def _evict_idle(self) -> bool:
        connection, since = next(iter(self._idle_since.items()), (None, 0.0))
        if connection is None or asyncio.get_running_loop().time() < since + self._evict_after_s:
            return False
        connection.abort()
        return True


class TrackedConnection(asyncio.Protocol):
    """One connection. It is aborted when a request does not begin in time, which takes a complete head."""

    client: ClientAddress
    transport: asyncio.Transport
    refused = False

    def __init__(self, limit: ConnectionLimit, create_protocol: CreateProtocol) -> None:
        self._limit = limit
        self._protocol = create_protocol()
        self._requests = 0
        self._idle = False
        self._timer: asyncio.TimerHandle | None = None

    def request_started(self) -> None:
        self._requests += 1
        self._set_busy()
        self._cancel_timer()

    def request_finished(self) -> None:
        """The next request has to begin within the idle timeout."""
        self._requests -= 1
        if self._requests == 0 and self._limit.find(self.client) is self:
            self._idle = True
            self._limit.mark_idle(self)
            self._abort_after(self._limit.idle_timeout_s)

    def websocket_finished(self) -> None:
        """uvicorn has given the transport to another protocol: the end of the connection is not seen here."""
        self._limit.remove(self)

    def abort(self) -> None:
        self.transport.abort()
        self._limit.remove(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        host, port, *_ = transport.get_extra_info("peername")
        self.client = (host, port)
        if not self._limit.add(self):
            self.transport.abort()
        self._abort_after(self._limit.head_timeout_s)
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        self._limit.remove(self)
        self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._idle:
            self._set_busy()
            self._abort_after(self._limit.head_timeout_s)
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def _set_busy(self) -> None:
        self._idle = False
        self._limit.mark_busy(self)

    def _abort_after(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
