"""Who sends too slowly is not waited for; who listens is left alone, however long it takes."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from beacon_lifecycle.http_deadlines import ClientTimeouts
from tests.fixtures.waiting import patience, until
from tests.fixtures.wire import wire_to
from tests.integration.live.stalled import (
    SOCKET_IS_OVER,
    STREAM_IS_OVER,
    StalledClient,
    socket_request,
    stream_request,
    told_by_socket,
    told_by_stream,
)
from tests.integration.runner_api.bed import CONFIG, GENERATION, ApiBed, Caller, api_bed, served

TIMEOUTS = ClientTimeouts(head_s=0.3)
SHORT = CONFIG.model_copy(update={"limits": CONFIG.limits.model_copy(update={"body_timeout_s": 0.3})})
HALF_A_HEAD = b"POST /api/v1/jobs HTTP/1.1\r\nhost: run"
BODY = json.dumps(GENERATION).encode()


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiBed]:
    async with api_bed(database_url, redis_url, SHORT) as bed:
        yield bed


@pytest.fixture
async def address(api: ApiBed, tmp_path: Path) -> AsyncIterator[str]:
    async with served(api, api.transport.app, tmp_path, TIMEOUTS) as address:
        yield address


def submission(caller: Caller, path: str = "/api/v1/jobs", length: int = len(BODY)) -> bytes:
    key = caller.http.headers["authorization"]
    head = f"POST {path} HTTP/1.1\r\nhost: runner\r\nauthorization: {key}\r\ncontent-length: {length}\r\n"
    return f"{head}content-type: application/json\r\n\r\n".encode()


@pytest.mark.parametrize("sent", [b"", b"\r\n", HALF_A_HEAD])
async def test_who_sends_no_whole_head_is_left(address: str, sent: bytes) -> None:
    async with wire_to(address) as wire:
        await wire.send(sent)
        assert await wire.ended()


async def test_a_head_that_comes_in_drops_is_not_waited_for(address: str) -> None:
    async with wire_to(address) as wire:
        await wire.send(HALF_A_HEAD)
        assert await wire.drip(b"x") == b""


async def test_a_kept_connection_with_half_a_head_is_left(address: str, anna: Caller) -> None:
    async with wire_to(address) as wire:
        await wire.send(submission(anna) + BODY)
        assert (await wire.answer())[0] == 202
        await wire.send(HALF_A_HEAD)
        assert await wire.ended()


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/jobs/batch", "/generate"])
@pytest.mark.parametrize("sent", [b"", BODY[:10]])
async def test_a_body_that_does_not_come_is_refused(
    address: str, anna: Caller, path: str, sent: bytes
) -> None:
    async with wire_to(address) as wire:
        await wire.send(submission(anna, path) + sent)
        status, headers, problem = await wire.answer()
        assert (status, problem["code"], headers["connection"]) == (408, "body_too_slow", "close")
        assert await wire.ended()


async def test_one_that_is_too_long_and_comes_in_drops_is_refused_too(address: str, anna: Caller) -> None:
    async with wire_to(address) as wire:
        await wire.send(submission(anna, length=10_000_000))
        assert b"body_too_slow" in await wire.drip(b"x")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (b"content-length: 4\r\n", b""),
        (b"transfer-encoding: chunked\r\n", b""),
        (b"x: %b\r\n" % (b"x" * 10_000), b"HTTP/1.1 431"),
        (b"x: y\r\n" * 200, b"HTTP/1.1 431"),
    ],
)
async def test_who_asks_for_a_socket_in_a_way_that_no_socket_begins_is_left(
    address: str, anna: Caller, more: bytes, said: bytes
) -> None:
    head = socket_request(anna, await anna.submit(GENERATION)).removesuffix(b"\r\n")
    async with wire_to(address) as wire:
        await wire.send(head + more + b"\r\n")
        async with patience("the runner ends the connection"):
            assert (await wire.reader.read())[:12] == said


async def test_streams_and_sockets_grow_older_than_that(api: ApiBed, address: str, anna: Caller) -> None:
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
        assert told_by_stream(await stream.read_until(STREAM_IS_OVER)).last[1]["reason"] == "job_over"
        assert told_by_socket(await socket.read_until(*SOCKET_IS_OVER)).last[1] == "the job is over"
        async with patience("the third is told"):
            await second.reader.readuntil(b"the job is over")


async def test_a_socket_that_says_too_much_is_closed(api: ApiBed, address: str, anna: Caller) -> None:
    """Nothing that a client says there is listened to, so little of it is held."""
    job = await anna.submit(GENERATION)
    async with wire_to(address) as wire:
        await wire.send(socket_request(anna, job))
        await until(lambda: len(api.watchers) == 1, "it is watching")
        await wire.send(b"\x82\xff" + (10_000_000).to_bytes(8, "big") + b"mask")
        async with patience("the runner closes it"):
            await wire.reader.readuntil((1009).to_bytes(2, "big"))
