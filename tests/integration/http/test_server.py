"""The HTTP server of every process: graceful stop, limits of heads, the address."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from beacon_http.server import HttpServer
from tests.fixtures.waiting import until, within_timeout
from tests.fixtures.wire import wire_to

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
HEAD = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]}


class GatedApp:
    """Sends the second half of each response when the gate opens."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(HEAD)
        await send({"type": "http.response.body", "body": b"ab", "more_body": True})
        self.started += 1
        await self.gate.wait()
        await send({"type": "http.response.body", "body": b"cd"})


@asynccontextmanager
async def running(
    app: ASGIApp, folder: Path, stop_grace_s: float, on_grace_over: Callable[[], None] = lambda: None
) -> AsyncIterator[tuple[HttpServer, str]]:
    ready = folder / "ready"
    server = HttpServer(
        app,
        host="127.0.0.1",
        port=0,
        ready_file=ready,
        stop_grace_s=stop_grace_s,
        on_grace_over=on_grace_over,
    )
    await server.start()
    try:
        yield server, ready.read_text(encoding="utf-8")
    finally:
        if isinstance(app, GatedApp):
            app.gate.set()
        await server.stop()


async def test_a_running_response_completes_within_the_grace(tmp_path: Path) -> None:
    app = GatedApp()
    async with running(app, tmp_path, 60) as (server, url), wire_to(url) as wire, wire_to(url) as idle:
        await wire.send(GET)
        await until(lambda: app.started, "the response begins")
        stopping = asyncio.create_task(server.stop())
        assert await idle.ended()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        app.gate.set()
        async with within_timeout("the response completes"):
            assert (await wire.reader.read()).endswith(b"\r\n\r\nabcd")
        await stopping
        assert server.connections == 0


async def test_a_response_is_ended_when_the_grace_is_over(tmp_path: Path) -> None:
    app = GatedApp()
    async with running(app, tmp_path, 0.1, app.gate.set) as (server, url), wire_to(url) as wire:
        await wire.send(GET)
        await until(lambda: app.started, "the response begins")
        await server.stop()
        async with within_timeout("the response ends"):
            assert (await wire.reader.read()).endswith(b"abcd")


async def test_a_response_that_never_ends_does_not_prevent_the_stop(tmp_path: Path) -> None:
    app = GatedApp()
    async with running(app, tmp_path, 0.1) as (server, url), wire_to(url) as wire:
        await wire.send(GET)
        await until(lambda: app.started, "the response begins")
        async with within_timeout("the server stops"):
            await server.stop()
        with suppress(ConnectionResetError):
            assert not (await wire.reader.read()).endswith(b"cd")


async def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    async with running(GatedApp(), tmp_path, 1) as (_, url):
        port = int(url.rpartition(":")[2])
        second = HttpServer(GatedApp(), host="127.0.0.1", port=port)
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            await second.start()


async def test_bytes_sent_without_a_pause_arrive_in_one_piece(tmp_path: Path) -> None:
    app = GatedApp()
    app.gate.set()
    async with running(app, tmp_path, 1) as (_, url), wire_to(url) as wire:
        await wire.send(GET)
        piece = await wire.reader.read(65_536)
    assert piece.startswith(b"HTTP/1.1 200")
    assert piece.endswith(b"\r\n\r\nabcd")


async def test_a_response_does_not_run_ahead_of_its_reader(tmp_path: Path) -> None:
    """A body that is made without a pause is held back by the connection, not collected in memory."""
    part, parts, sent = b"x" * 65_536, 1_000, 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send(HEAD | {"headers": [(b"content-length", b"%d" % (len(part) * parts))]})
        for number in range(parts):
            await send({"type": "http.response.body", "body": part, "more_body": number < parts - 1})
            sent += 1

    async with running(app, tmp_path, 1) as (_, url), wire_to(url) as wire:
        await wire.send(GET)
        await until(lambda: sent, "the response begins")
        for _ in range(100):
            await asyncio.sleep(0)
        assert sent < parts
