"""A backend that sends exactly the bytes that a test chooses."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

OK = b'HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{"output":"yes"}'

Handler = Callable[["Connection"], Awaitable[None]]


class Connection:
    """One connection, seen from the server."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer
        self.body = b""
        """Of the last request."""

    async def request(self) -> str | None:
        """The first line of the next request, its body read; None: the client has disconnected."""
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        except asyncio.IncompleteReadError:
            return None
        if "content-length: " in head:
            self.body = await self.reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
        return head.split("\r\n")[0]

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


class Server:
    def __init__(self, handler: Handler) -> None:
        self.accepted = 0
        """All connections so far."""
        self.open = 0
        self.url = ""
        self._handler = handler

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.open += 1
        try:
            await self._handler(Connection(self.accepted, reader, writer))
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def server_that(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    made = Server(handler)
    listener = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    made.url = f"http{'s' if tls else ''}://127.0.0.1:{port}"
    try:
        yield made
    finally:
        listener.close()
