"""Progress and previews from ComfyUI's WebSocket, which drops, is refused or sends what is not usable."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from yarl import URL

from beacon_config.workflows import WorkflowConfig
from beacon_contracts.inference import RunProgress
from beacon_lifecycle import SystemClock
from beacon_router.backends import BackendClient
from beacon_router.backends.dialects.comfyui_events import MAX_MESSAGE_BYTES, ComfyEvents
from beacon_router.backends.progress import MAX_PREVIEW_LENGTH
from beacon_router.backends.wire import AccessCheck, BackendWire
from tests.fixtures.waiting import until
from tests.integration.router.backend_calls import NO_FILES, open_client, spec_of

GRAPH = {"3": {"class_type": "KSampler", "inputs": {}, "_meta": {"title": "Sampler"}}}
WORKFLOWS = {"m": WorkflowConfig(graph=GRAPH)}
CALL = spec_of("r-1", "m", b"{}")
RUN = "prompt-1"
JPEG, PNG = b"\x00\x00\x00\x01\x00\x00\x00\x01", b"\x00\x00\x00\x01\x00\x00\x00\x02"
"""Headers of a preview."""
Script = Callable[[ServerConnection, int], Awaitable[None]]


def message(kind: str, **data: Any) -> str:
    return json.dumps({"type": kind, "data": data})


def step(value: float, **more: Any) -> str:
    return message("progress", **{"value": value, "max": 4, "node": "3", "prompt_id": RUN} | more)


class HurriedClock(SystemClock):
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Watched:
    """What was reported of the run."""

    def __init__(self) -> None:
        self.reported: list[RunProgress] = []
        self.changed = asyncio.Event()
        self.clients: list[str] = []
        self.tries = 0

    def percents(self) -> list[float | None]:
        return [one.percent for one in self.reported]


@pytest.fixture
async def client() -> AsyncIterator[BackendClient]:
    async with open_client() as opened:
        yield opened


@asynccontextmanager
async def watching(
    client: BackendClient, script: Script, run_id: str = RUN, *, refused: int = 0
) -> AsyncIterator[Watched]:
    """A server runs the script for each connection, of which it gets the number from 1 on.

    The first ones are refused.
    """
    watched = Watched()

    async def handler(connection: ServerConnection) -> None:
        assert connection.request is not None
        watched.clients.append(connection.request.path)
        await script(connection, len(watched.clients))

    def refuse(connection: ServerConnection, _: Request) -> Response | None:
        watched.tries += 1
        return connection.respond(404, "no WebSocket here") if watched.tries <= refused else None

    async with serve(handler, "127.0.0.1", 0, process_request=refuse) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        url = URL(f"http://127.0.0.1:{port}")
        clock = HurriedClock()
        wire = BackendWire(
            client, clock, NO_FILES, access_check=AccessCheck(url, {}), max_response_bytes=100_000
        )
        events = ComfyEvents(url, {}, WORKFLOWS, wire, clock)
        task = asyncio.ensure_future(events.watch(CALL, run_id, watched.reported.append, watched.changed))
        try:
            yield watched
            assert not task.done(), "it goes on until it is cancelled"
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_a_dropped_connection_is_opened_again_for_the_same_client(client: BackendClient) -> None:
    async def script(connection: ServerConnection, number: int) -> None:
        if number == 1:
            await connection.send(step(1))
            connection.transport.abort()
        else:
            await connection.send(message("executing", node="3"))  # without the id of the prompt
            await connection.send(step(3))
            await connection.wait_closed()

    async with watching(client, script) as watched:
        await until(lambda: 75.0 in watched.percents(), "the progress after the reconnection")

    assert watched.percents() == [25.0, None, 75.0]
    assert {one.message for one in watched.reported} == {"Sampler"}
    assert watched.clients == [f"/ws?clientId={RUN}"] * 2


async def test_a_refused_connection_is_tried_again(client: BackendClient) -> None:
    """An instance behind a proxy that passes no WebSockets: polls continue without it."""

    async def script(connection: ServerConnection, _: int) -> None:
        await connection.send(step(2))
        await connection.wait_closed()

    async with watching(client, script, refused=2) as watched:
        await until(lambda: watched.percents() == [50.0], "the progress of the third try")

    assert watched.tries == 3


async def test_previews_are_shown_and_unusable_ones_are_omitted(client: BackendClient) -> None:
    async def script(connection: ServerConnection, _: int) -> None:
        for text in (
            "no json",
            "[]",
            '{"type": "progress"}',
            '{"type": [], "data": {}}',
            message("progress", prompt_id=RUN, value="x", max=0),
        ):
            await connection.send(text)
        await connection.send(step(4, prompt_id="another-prompt"))
        for data in (b"", b"\x00", PNG[:6], b"\x00\x00\x00\x03textual", JPEG[:7] + b"\x09unknown"):
            await connection.send(data)
        await connection.send(PNG + b"x" * MAX_PREVIEW_LENGTH)
        await connection.send(JPEG + b"a picture")
        await connection.send(step(2))
        await connection.send(message("execution_success", prompt_id=RUN))
        await connection.wait_closed()

    async with watching(client, script) as watched:
        await until(watched.changed.is_set, "the end of the run is seen")

    preview = "data:image/jpeg;base64,YSBwaWN0dXJl"
    assert [(one.percent, one.preview) for one in watched.reported] == [(None, preview), (50.0, preview)]


async def test_a_message_that_is_too_large_ends_the_connection(client: BackendClient) -> None:
    async def script(connection: ServerConnection, number: int) -> None:
        await connection.send(b"x" * (MAX_MESSAGE_BYTES + 1) if number == 1 else step(1))
        await connection.wait_closed()

    async with watching(client, script) as watched:
        await until(lambda: watched.percents() == [25.0], "the progress of the next connection")


async def test_the_client_of_an_old_comfyui_is_named_by_the_run(client: BackendClient) -> None:
    async def script(connection: ServerConnection, _: int) -> None:
        await connection.send(step(1, prompt_id="its-own"))
        await connection.wait_closed()

    async with watching(client, script, "its-own/client-7") as watched:
        await until(lambda: watched.percents() == [25.0], "the progress")

    assert watched.clients == ["/ws?clientId=client-7"]


async def test_a_redirect_of_the_websocket_is_not_followed(client: BackendClient) -> None:
    """The headers have the credentials of the configured host."""
    elsewhere: list[str] = []

    def record(connection: ServerConnection, request: Request) -> Response:
        elsewhere.append(request.path)
        return connection.respond(404, "")

    async def script(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with serve(script, "127.0.0.1", 0, process_request=record) as other:
        target = f"http://localhost:{next(iter(other.sockets)).getsockname()[1]}/ws"

        def redirect(connection: ServerConnection, _: Request) -> Response:
            response = connection.respond(307, "")
            response.headers["location"] = target
            return response

        async with serve(script, "127.0.0.1", 0, process_request=redirect) as server:
            url = URL(f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/ws")
            with pytest.raises(aiohttp.ClientError):
                async with client.websocket(url, {"x-api-key": "secret"}, max_bytes=1_000):
                    pass

    assert elsewhere == []
