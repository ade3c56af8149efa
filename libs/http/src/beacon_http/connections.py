"""Limits on the open connections of a server: their number, and the time to send the head of a request.

uvicorn has no timeout for the head of a request, and its concurrency limit refuses requests on connections
that it has already accepted. `TrackedConnection` wraps uvicorn's protocol by asyncio's protocol interface.
Connections without a request are closed by uvicorn's keep-alive timeout.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

CONNECTION = "beacon.connection"
"""Key in the ASGI scope of a request; the value is its TrackedConnection."""
MAX_BATCH_BYTES = 65_536
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
        evict_after_s: float,
        on_refused: Callable[[], None],
    ) -> None:
        self.max_connections = max_connections
        self.head_timeout_s = head_timeout_s
        self.by_client: dict[ClientAddress, TrackedConnection] = {}
        self.idle_since: dict[TrackedConnection, float] = {}  # in the order of time
        self._surplus = max_connections // 8 + 8
        self._evict_after_s = evict_after_s
        self._on_refused = on_refused

    def add(self, connection: "TrackedConnection") -> bool:
        """Register a connection; false if it has to be aborted."""
        if len(self.by_client) >= self.max_connections and not self._evict_idle():
            self._on_refused()
            connection.refused = True
        if len(self.by_client) >= self.max_connections + self._surplus:
            return False
        self.by_client[connection.client] = connection
        return True

    def remove(self, connection: "TrackedConnection") -> None:
        self.idle_since.pop(connection, None)
        if self.by_client.get(connection.client) is connection:
            del self.by_client[connection.client]

    def _evict_idle(self) -> bool:
        connection, since = next(iter(self.idle_since.items()), (None, 0.0))
        if connection is None or asyncio.get_running_loop().time() < since + self._evict_after_s:
            return False
        connection.abort()
        return True


class BatchedWrites:
    """A transport that sends what is written in one turn of the event loop by one system call.

    uvicorn writes head, body and end of a response one by one. Above `MAX_BATCH_BYTES` nothing is held back,
    so that the transport's flow control applies.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)
        self._size += len(data)
        if self._size > MAX_BATCH_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """The other methods are the transport's own; each is looked up once."""
        method = getattr(self._transport, name)
        setattr(self, name, method)
        return method

    def _flush(self) -> None:
        pieces, self._pieces, self._size = self._pieces, [], 0
        if pieces and not self._transport.is_closing():
            self._transport.writelines(pieces)


class TrackedConnection(asyncio.Protocol):
    """One connection. It is aborted when the head of a request is not complete in time."""

    client: ClientAddress
    transport: asyncio.Transport
    refused = False
    lost = False
    on_lost: Callable[[], object] | None = None
    """Called when the client disconnects during a request."""

    def __init__(self, limit: ConnectionLimit, create_protocol: CreateProtocol) -> None:
        self._limit = limit
        self._protocol = create_protocol()
        self._loop = asyncio.get_running_loop()
        self._head_timer = self._loop.call_later(limit.head_timeout_s, self.abort)
        self._requests = 0

    def request_started(self) -> None:
        self._requests += 1
        self._head_timer.cancel()
        self._limit.idle_since.pop(self, None)

    def request_finished(self) -> None:
        self._requests -= 1
        if self._requests == 0 and self._limit.by_client.get(self.client) is self:
            self._limit.idle_since[self] = self._loop.time()

    def websocket_finished(self) -> None:
        """uvicorn has moved the transport to another protocol, so `connection_lost` is not called."""
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
        self._protocol.connection_made(cast("asyncio.Transport", BatchedWrites(self.transport, self._loop)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer.cancel()
        self._limit.remove(self)
        self._protocol.connection_lost(exc)
        self.lost = True
        if self.on_lost is not None:
            self.on_lost()

    def data_received(self, data: bytes) -> None:
        if self._limit.idle_since.pop(self, None) is not None:  # the next request begins
            self._head_timer = self._loop.call_later(self._limit.head_timeout_s, self.abort)
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
