"""Clients that send too slowly are disconnected; clients that wait for a response or an event are not."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from beacon_http.server import ServerLimits
from tests.fixtures.waiting import until, within_timeout
from tests.fixtures.wire import wire_to
from tests.integration.live.stalled import (
    SOCKET_IS_OVER,
    STREAM_IS_OVER,
    StalledClient,
    received_by_socket,
    received_by_stream,
    socket_request,
    stream_request,
)
from tests.integration.runner_api.harness import CONFIG, GENERATION, ApiHarness, Caller, api_harness, served

LIMITS = ServerLimits(head_timeout_s=0.3)
SHORT = CONFIG.model_copy(update={"limits": CONFIG.limits.model_copy(update={"body_timeout_s": 0.3})})
HALF_A_HEAD = b"POST /api/v1/jobs HTTP/1.1\r\nhost: run"
BODY = json.dumps(GENERATION).encode()


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiHarness]:
    async with api_harness(database_url, redis_url, SHORT) as harness:
        yield harness


@pytest.fixture
async def address(api: ApiHarness, tmp_path: Path) -> AsyncIterator[str]:
    async with served(api, api.transport.app, tmp_path, LIMITS) as address:
        yield address


def submission(caller: Caller, path: str = "/api/v1/jobs", length: int = len(BODY)) -> bytes:
    key = caller.http.headers["authorization"]
    head = f"POST {path} HTTP/1.1\r\nhost: runner\r\nauthorization: {key}\r\ncontent-length: {length}\r\n"
    return f"{head}content-type: application/json\r\n\r\n".encode()


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD])
async def test_a_client_without_a_complete_head_is_disconnected(address: str, sent: bytes) -> None:
    async with wire_to(address) as wire:
        await wire.send(sent)
        assert await wire.ended()


async def test_a_head_that_arrives_slowly_ends_the_connection(address: str) -> None:
    async with wire_to(address) as wire:
        await wire.send(HALF_A_HEAD)
        assert await wire.drip(b"x") == b""


async def test_half_a_head_after_a_request_ends_the_connection(address: str, anna: Caller) -> None:
    async with wire_to(address) as wire:
        await wire.send(submission(anna) + BODY)
        assert (await wire.answer())[0] == 202
        await wire.send(HALF_A_HEAD)
        assert await wire.ended()


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/jobs/batch", "/generate"])
@pytest.mark.parametrize("sent", [b"", BODY[:10]])
async def test_an_incomplete_body_is_refused(address: str, anna: Caller, path: str, sent: bytes) -> None:
    async with wire_to(address) as wire:
        await wire.send(submission(anna, path) + sent)
        status, headers, problem = await wire.answer()
        assert (status, problem["code"], headers["connection"]) == (408, "body_too_slow", "close")
        assert await wire.ended()


async def test_a_large_body_that_arrives_slowly_is_refused(address: str, anna: Caller) -> None:
    async with wire_to(address) as wire:
        await wire.send(submission(anna, length=10_000_000))
        assert b"body_too_slow" in await wire.drip(b"x")


@pytest.mark.parametrize(
    "headers",
    [
        b"content-length: 4\r\n",
        b"transfer-encoding: chunked\r\n",
        b"x: %b\r\n" % (b"x" * 10_000),
        b"x: y\r\n" * 200,
    ],
)
async def test_an_invalid_websocket_request_ends_the_connection(
    address: str, anna: Caller, headers: bytes
) -> None:
    head = socket_request(anna, await anna.submit(GENERATION)).removesuffix(b"\r\n")
    async with wire_to(address) as wire:
        await wire.send(head + headers + b"\r\n")
        assert await wire.ended()


async def test_streams_and_websockets_outlive_the_head_timeout(
    api: ApiHarness, address: str, anna: Caller
) -> None:
    job = await anna.submit(GENERATION)
    stream = await StalledClient.to(address, stream_request(anna, job))
    socket = await StalledClient.to(address, socket_request(anna, job))
    await until(lambda: len(api.watchers) == 2, "both are watching")
    async with wire_to(address) as second, wire_to(address) as silent:
        await second.send(submission(anna) + BODY)
        assert (await second.answer())[0] == 202
        await second.send(socket_request(anna, job))  # on a connection that was used before
        await until(lambda: len(api.watchers) == 3, "it is watching too")
        assert await silent.ended()
        async with wire_to(address) as later:
            assert await later.ended()

        await anna.post(f"/api/v1/jobs/{job}/cancel")
        assert received_by_stream(await stream.read_until(STREAM_IS_OVER)).last[1]["reason"] == "job_over"
        assert received_by_socket(await socket.read_until(*SOCKET_IS_OVER)).last[1] == "the job has ended"
        async with within_timeout("the third is refused"):
            await second.reader.readuntil(b"the job has ended")


async def test_a_large_websocket_message_is_refused(api: ApiHarness, address: str, anna: Caller) -> None:
    job = await anna.submit(GENERATION)
    async with wire_to(address) as wire:
        await wire.send(socket_request(anna, job))
        await until(lambda: len(api.watchers) == 1, "it is watching")
        await wire.send(b"\x82\xff" + (10_000_000).to_bytes(8, "big") + b"mask")
        async with within_timeout("the runner closes it"):
            await wire.reader.readuntil((1009).to_bytes(2, "big"))
