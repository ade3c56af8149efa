"""Clients that send too slowly are disconnected; clients that wait for a response are not."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures.gpusim import Gpusim, GpusimProcess
from tests.fixtures.router import (
    TOKEN,
    Router,
    RouterProcess,
    backend,
    router_config,
    router_process,
    start_router,
)
from tests.fixtures.waiting import within_timeout
from tests.fixtures.wire import wire_to
from tests.integration.router.raw_server import Connection, server_that

SHORT: dict[str, Any] = {"head_timeout_s": 0.3, "body_timeout_s": 0.3}
HALF_A_HEAD = b"POST /inference HTTP/1.1\r\nhost: rou"
KEY = f"host: router\r\nauthorization: Bearer {TOKEN}\r\n"


def post(path: str, document: object, headers: str = "") -> bytes:
    body = json.dumps(document).encode()
    return f"POST {path} HTTP/1.1\r\n{KEY}{headers}content-length: {len(body)}\r\n\r\n".encode() + body


def ask(name: str, path: str = "/inference") -> bytes:
    return post(path, {"request_id": name, "model": "m", "region": "US", "input": {"prompt": "x"}})


@pytest.fixture(scope="module")
def shared_router(us_process: GpusimProcess) -> Iterator[RouterProcess]:
    with router_process(
        router_config({"us-1": backend("US", us_process.url, slots=4)}, **SHORT)
    ) as impatient:
        yield impatient


async def test_a_client_without_a_complete_head_is_disconnected(router: Router) -> None:
    for sent in (b"", HALF_A_HEAD):
        async with wire_to(router.url) as wire:
            await wire.send(sent)
            assert await wire.ended()


async def test_a_head_that_arrives_slowly_ends_the_connection(router: Router) -> None:
    async with wire_to(router.url) as wire:
        await wire.send(HALF_A_HEAD)
        assert await wire.drip(b"x") == b""


async def test_half_a_head_after_a_request_ends_the_connection(router: Router) -> None:
    async with wire_to(router.url) as wire:
        await wire.send(ask("first"))
        assert (await wire.answer())[0] == 200
        await wire.send(HALF_A_HEAD)
        assert await wire.ended()


async def test_a_body_that_arrives_slowly_is_refused(router: Router) -> None:
    held_before = (await router.queues())["held_bytes"]
    for path in ("/inference", "/inference?x=1"):
        head = f"POST {path} HTTP/1.1\r\n{KEY}content-length: 100000\r\n\r\n"
        async with wire_to(router.url) as wire:
            await wire.send(head.encode())
            said = await wire.drip(b" ")
            assert said.startswith(b"HTTP/1.1 408 ")
            assert all(part in said for part in (b"body_too_slow", b"connection: close", b"x-request-id"))
    assert (await router.queues())["held_bytes"] == held_before


async def test_a_client_may_wait_long_for_its_response(router: Router, gpu: Gpusim) -> None:
    looking = f"GET /inference/held HTTP/1.1\r\n{KEY}prefer: wait=3000\r\n\r\n".encode()
    await gpu.hold()
    async with wire_to(router.url) as first, wire_to(router.url) as second, wire_to(router.url) as poll:
        await first.send(ask("held"))
        await second.send(ask("held-too", "/inference?x=1"))
        await gpu.wait_running(2)
        await poll.send(looking)
        for _ in range(2):
            async with wire_to(router.url) as silent:
                assert await silent.ended()

        await gpu.release()
        for wire in (first, second, poll):
            status, _, document = await wire.answer()
            assert (status, document["state"]) == (200, "completed")


async def test_a_chat_stream_outlives_the_head_timeout() -> None:
    async def answers_late(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + word("first"))
        await may_go_on.wait()
        await connection.send(word("last") + b"data: [DONE]\n\n")

    def word(text: str) -> bytes:
        chunk = {"choices": [{"index": 0, "delta": {"content": text}}]}
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"

    may_go_on = asyncio.Event()
    talk = {"request_id": "s-1", "model": "chat", "stream": True, "input": {"prompt": "x"}}
    async with server_that(answers_late) as backend_server:
        entry = backend("US", backend_server.url, dialect="openai", models=("chat",), slots=1)
        config = router_config({"us-1": entry}, **SHORT)
        async with start_router(config) as router, wire_to(router.url) as wire:
            await wire.send(post("/inference", talk, "accept: text/event-stream\r\n"))
            async with within_timeout("it begins"):
                await wire.reader.readuntil(b"first")
            for _ in range(2):
                async with wire_to(router.url) as silent:
                    assert await silent.ended()
            may_go_on.set()
            async with within_timeout("it ends"):
                await wire.reader.readuntil(b"last")
                await wire.reader.readuntil(b"[DONE]")
