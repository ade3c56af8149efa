"""Connections of streams: little is kept for a client that does not read, and its connection can be ended.

uvicorn's own protocols wait for the client before every word, the last one too, and closing waits until all
is sent: a client that reads nothing and stays would keep what was written for it, and never learn why.
"""

import asyncio
import logging
import socket
from typing import Any, Protocol

from starlette.types import Scope
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from beacon_lifecycle.http_readers import WatchedReaders, cut

LINE = "beacon.line"

# uvicorn would write the whole address of every WebSocket, with its ticket.
_NO_ADDRESSES = logging.getLogger("uvicorn.websocket")
_NO_ADDRESSES.setLevel(logging.WARNING)

# Linux lets a send buffer grow to megabytes unless it is set, and doubles what it is set to.
SEND_BUFFER = 32 * 1024
WRITE_BUFFER = 32 * 1024
LAST_WORDS_S = 5.0  # for a client that reads again to take what is on its way; then the connection is cut


class Line(Protocol):
    """What a stream may do with the connection it is sent on."""

    def keep_little(self) -> None:
        """From now on, let little wait for the client."""

    def say_last(self) -> None:
        """Let the next words go out behind what is waiting, and cut the connection a little later."""


def line_of(scope: Scope) -> Line | None:
    """The connection of this request; none where the server is another one."""
    line: Line | None = scope.get("extensions", {}).get(LINE)
    return line


class HttpLine(WatchedReaders):
    """HTTP of which an answer may be a stream."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {LINE: self}  # type: ignore[dict-item]

    def keep_little(self) -> None:
        _keep_little(self.transport)

    def say_last(self) -> None:
        self.cycle.keep_alive = False
        self.flow.resume_writing()
        self.loop.call_later(LAST_WORDS_S, cut, self.transport)


class SocketLine(WebSocketsSansIOProtocol):
    """A WebSocket whose closing word is sent whether or not the client has read what came before."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = _NO_ADDRESSES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        _keep_little(self.transport)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # A head that was not taken for that of a WebSocket: uvicorn would leave the connection as it is.
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    async def send(self, message: Any) -> None:
        closing = message["type"] == "websocket.close"
        if closing:
            self.writable.set()
        await super().send(message)
        if closing:
            self.loop.call_later(LAST_WORDS_S, cut, self.transport)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        cut(self.transport)


def _keep_little(transport: asyncio.Transport) -> None:
    transport.set_write_buffer_limits(high=WRITE_BUFFER)
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
