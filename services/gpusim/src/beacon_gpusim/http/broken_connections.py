"""Faults that end a connection in the middle of a response.

ASGI cannot express them. The socket is found among the open files of this process by its two addresses, so no
internals of the HTTP server are used: once the receiving side is shut down, the server reads the end of the
stream, as if the client had disconnected, and closes the connection after it has sent what was written.
"""

import os
import socket
import stat
import struct
from pathlib import Path

from starlette.types import Scope

from beacon_gpusim.http.exchange import HttpExchange

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


async def close_connection(exchange: HttpExchange) -> None:
    """The client sees the end of the stream before the end of the response."""
    await _end_connection(exchange, reset=False)


async def reset_connection(exchange: HttpExchange) -> None:
    """The client sees ECONNRESET."""
    await _end_connection(exchange, reset=True)


async def _end_connection(exchange: HttpExchange, *, reset: bool) -> None:
    connection = _duplicate_socket(exchange.request.scope)
    if connection is not None:
        with connection:
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            connection.shutdown(socket.SHUT_RD)
    await exchange.wait_disconnected()


def _duplicate_socket(scope: Scope) -> socket.socket | None:
    """The socket of the request; None when the client has disconnected already."""
    addresses = (tuple(scope["server"]), tuple(scope["client"]))
    for file in Path("/dev/fd").iterdir():
        try:
            number = int(file.name)
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            connection = socket.socket(fileno=os.dup(number))
        except OSError:  # closed since it was listed
            continue
        if _addresses(connection) == addresses:
            return connection
        connection.close()
    return None


def _addresses(connection: socket.socket) -> tuple[object, object] | None:
    try:
        local, remote = connection.getsockname(), connection.getpeername()
    except OSError:  # a listener, or disconnected
        return None
    return tuple(local[:2]), tuple(remote[:2])
