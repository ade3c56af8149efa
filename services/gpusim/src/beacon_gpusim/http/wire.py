"""Reading bodies and writing answers, good and spoiled, as plain ASGI messages."""

import asyncio
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from beacon_gpusim.core.faults import Fault, FaultKind
from beacon_gpusim.dialects import BadInputError

Header = tuple[bytes, bytes]

JSON = b"application/json"
HTML = b"text/html; charset=utf-8"
_TRANSPORT = "beacon.transport"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_PAGE = b"<html><body><h1>502 Bad Gateway</h1></body></html>"


class OpenProtocol(HttpToolsProtocol):
    """Uvicorn's HTTP protocol, with its transport within reach of the faults that break connections."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {_TRANSPORT: {"transport": self.transport}}

    def eof_received(self) -> None:
        """A client that leaves is heard before a call that comes after it, even if both are found at once."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()


@dataclass(frozen=True, slots=True)
class Exchange:
    """One HTTP request and the way to answer it."""

    scope: Scope
    receive: Receive
    send: Send

    @property
    def transport(self) -> asyncio.Transport:
        transport: asyncio.Transport = self.scope["extensions"][_TRANSPORT]["transport"]
        return transport

    def header(self, name: bytes) -> str | None:
        for key, value in self.scope["headers"]:
            if key == name:
                return str(value, "latin-1")
        return None


class ClientGoneError(Exception):
    """The client left before its request was complete."""


async def read_body(receive: Receive, limit: int) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
        if len(body) > limit:
            break
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    if len(body) > limit:
        raise BadInputError(f"the body is larger than {limit} bytes", status=413, code="body_too_large")
    return body


async def send_body(
    send: Send, status: int, body: bytes, *, content_type: bytes = JSON, headers: Iterable[Header] = ()
) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", content_type),
                (b"content-length", b"%d" % len(body)),
                *headers,
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def send_answer(exchange: Exchange, body: bytes, fault: Fault | None) -> None:
    """The answer, or what the fault makes of it."""
    send, kind = exchange.send, None if fault is None else fault.kind
    if kind is FaultKind.NO_BODY:
        await send_body(send, 200, b"")
    elif kind is FaultKind.BAD_JSON:
        await send_body(send, 200, body[: len(body) // 2])
    elif kind is FaultKind.WRONG_CONTENT_TYPE:
        await send_body(send, 200, _PAGE, content_type=HTML)
    elif kind is FaultKind.TRUNCATED:
        await _send_half(exchange, body)
    else:
        await send_body(send, 200, body)


async def _send_half(exchange: Exchange, body: bytes) -> None:
    headers = [(b"content-type", JSON), (b"content-length", b"%d" % len(body))]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
    await exchange.send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
    await close_connection(exchange)


async def close_connection(exchange: Exchange) -> None:
    """Send what was written, then close, in the middle of the answer."""
    exchange.transport.close()
    await wait_gone(exchange.receive)


async def reset_connection(exchange: Exchange) -> None:
    """The client sees ECONNRESET."""
    connection: socket.socket = exchange.transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    exchange.transport.abort()
    await wait_gone(exchange.receive)


async def wait_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
