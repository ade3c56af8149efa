"""Streams and WebSockets count as connections; requests beyond the limit get 503."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from beacon_http.server import ServerLimits
from tests.fixtures.waiting import until
from tests.fixtures.wire import wire_to
from tests.integration.live.stalled import StalledClient, socket_request, stream_request
from tests.integration.runner_api.harness import GENERATION, ApiHarness, Caller, served


@pytest.fixture
def refused() -> list[None]:
    return []


@pytest.fixture
async def address(api: ApiHarness, tmp_path: Path, refused: list[None]) -> AsyncIterator[str]:
    limits = ServerLimits(connections=2, evict_after_s=0.2)
    app, on_refused = api.transport.app, lambda: refused.append(None)
    async with served(api, app, tmp_path, limits, on_refused) as address:
        yield address


def submission(caller: Caller) -> bytes:
    body = json.dumps(GENERATION).encode()
    head = (
        f"POST /api/v1/jobs HTTP/1.1\r\nhost: runner\r\ncontent-length: {len(body)}\r\n"
        f"authorization: {caller.http.headers['authorization']}\r\n\r\n"
    )
    return head.encode() + body


async def test_streams_and_websockets_are_counted(
    api: ApiHarness, address: str, anna: Caller, refused: list[None]
) -> None:
    job = await anna.submit(GENERATION)
    clients = [
        await StalledClient.to(address, request)
        for request in (stream_request(anna, job), socket_request(anna, job))
    ]
    await until(lambda: len(api.watchers) == 2, "both are watching")
    for request in (submission(anna), stream_request(anna, job), socket_request(anna, job)):
        async with wire_to(address) as wire:
            await wire.send(request)
            status, _, problem = await wire.answer()
            assert (status, problem["code"]) == (503, "too_many_connections")
            assert await wire.ended()
    assert len(refused) == 3
    for client in clients:
        client.close()

    async def is_served() -> bool:
        async with wire_to(address) as wire:
            await wire.send(submission(anna))
            return (await wire.answer())[0] == 202

    await until(is_served, "there is room again")


async def test_an_idle_connection_is_closed_for_a_new_one(address: str, anna: Caller) -> None:
    async def is_served() -> bool:
        async with wire_to(address) as wire:
            await wire.send(submission(anna))
            return (await wire.answer())[0] == 202

    async with wire_to(address) as first, wire_to(address) as second:
        for wire in (first, second):
            await wire.send(submission(anna))
            assert (await wire.answer())[0] == 202
        await until(is_served, "an idle connection is closed")
        with suppress(ConnectionResetError):
            assert await first.ended()
