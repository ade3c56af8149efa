"""`POST /inference` with `Accept: text/event-stream`."""

import asyncio
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import httpx
import orjson
import pytest

from beacon_contracts.inference import InferenceView
from beacon_runner.router_client.stream import EventDecoder
from tests.fixtures.gpusim import Gpusim
from tests.fixtures.router import Router, backend, router_config, start_router
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until
from tests.integration.router.raw_server import OK, Connection, server_that

EVENTS = {"accept": "text/event-stream"}
CHAT: dict[str, Any] = {
    "model": "chat",
    "input": {"messages": [{"role": "user", "content": "Why is the sky blue?"}]},
    "stream": True,
}


async def test_states_come_first_then_the_backends_own_bytes_then_the_end(
    router: Router, gpu: Gpusim
) -> None:
    body = {**CHAT, "request_id": "s-1"}
    answer = await router.http.post("/inference", json=body, headers=EVENTS)
    first, *data, last = EventDecoder().feed(answer.content)

    assert isinstance(first, InferenceView)
    assert isinstance(last, InferenceView)
    assert first.state in ("warming", "running")
    assert (first.requested_region, last.state) == ("US", "completed")
    async with httpx.AsyncClient(base_url=gpu.url) as direct:
        plain = {"model": "chat", "stream": True, **CHAT["input"]}
        expected = await direct.post("/v1/chat/completions", json=plain, headers={"x-request-id": "s-1"})
    received = b"".join(piece for piece in data if isinstance(piece, bytes))
    assert _without_times(received) == _without_times(expected.content)


async def test_without_streaming_the_complete_response_is_sent(router: Router) -> None:
    body = {**CHAT, "stream": False, "request_id": "s-2"}
    answer = await router.http.post("/inference", json=body, headers=EVENTS)
    _, data, last = EventDecoder().feed(answer.content)

    assert isinstance(data, bytes)
    assert data.startswith(b'{"id":"chatcmpl-s-2"')
    assert isinstance(last, InferenceView)
    assert last.response is None
    assert last.usage is not None
    assert orjson.loads(data)["usage"] == last.usage


async def test_its_result_is_not_kept_after_the_stream(router: Router) -> None:
    """Results of streams do not use the memory for results."""
    body = {**CHAT, "request_id": "s-5"}
    answer = await router.http.post("/inference", json=body, headers=EVENTS)
    assert b'"state":"completed"' in answer.content

    async def forgotten() -> bool:
        return (await router.http.get("/inference/s-5")).status_code == 404

    await until(forgotten, "the result is dropped")


async def test_a_client_that_leaves_the_queue_is_forgotten(router: Router, gpu: Gpusim) -> None:
    await gpu.hold()
    running = [asyncio.ensure_future(router.infer(f"held-{number}", model="chat")) for number in range(2)]
    await gpu.wait_running(2)
    body = {**CHAT, "request_id": "s-3"}
    async with router.http.stream("POST", "/inference", json=body, headers=EVENTS) as answer:
        first = await anext(answer.aiter_bytes())
        assert b'"state":"queued"' in first

    async def gone() -> bool:
        return bool((await router.queues())["waiting"] == 0)

    await until(gone, "it has left the queue")
    assert (await router.http.get("/inference/s-3")).status_code == 404
    await gpu.release()
    await asyncio.gather(*running)


async def test_streams_count_in_the_positions_of_others(router: Router, gpu: Gpusim) -> None:
    await gpu.hold()
    running = [asyncio.ensure_future(router.infer(f"busy-{number}", model="chat")) for number in range(2)]
    await gpu.wait_running(2)
    body = {**CHAT, "request_id": "s-ahead"}
    async with router.http.stream("POST", "/inference", json=body, headers=EVENTS) as answer:
        await anext(answer.aiter_bytes())
        behind = (await router.submit("behind", model="chat", prefer="respond-async")).json()
    assert behind["position"] == 2
    assert behind["waiting_for"]
    await router.cancel("behind")
    await gpu.release()
    await asyncio.gather(*running)


async def test_an_id_that_is_in_use_is_refused(router: Router) -> None:
    await router.infer("s-4")
    answer = await router.http.post("/inference", json={**CHAT, "request_id": "s-4"}, headers=EVENTS)

    assert (answer.status_code, answer.json()["code"]) == (409, "request_id_reused")


async def test_a_client_that_stops_reading_frees_its_slot() -> None:
    async def endless(connection: Connection) -> None:
        line = await connection.request()
        if line is None or not line.startswith("post"):  # a health check
            await connection.send(OK)
            return
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        try:
            while True:
                await connection.send(b"data: " + b"x" * 60_000 + b"\n\n")
        except ConnectionError:
            left.set()

    left = asyncio.Event()
    async with server_that(endless) as server, _router_to(server.url) as router:
        body = {**CHAT, "request_id": "s-5"}
        async with router.http.stream("POST", "/inference", json=body, headers=EVENTS):
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                await left.wait()
            queues = await router.queues()
            (us,) = queues["regions"]["US"]["backends"]
            assert (queues["running"], us["busy"], us["breaker"]["state"]) == (0, 0, "closed")


async def test_a_client_that_stops_reading_loses_its_connection() -> None:
    async def endless(connection: Connection) -> None:
        line = await connection.request()
        if line is None or not line.startswith("post"):  # a health check
            await connection.send(OK)
            return
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                await connection.send(b"data: " + b"x" * 60_000 + b"\n\n")

    async with server_that(endless) as server, _router_to(server.url) as router:
        body = {**CHAT, "request_id": "s-6"}
        async with router.http.stream("POST", "/inference", json=body, headers=EVENTS) as answer:

            async def over() -> bool:
                return 'route="/inference"' in (await router.http.get("/metrics")).text

            await until(over, "the router is done with the answer")
            with pytest.raises(httpx.ReadError):
                async for _ in answer.aiter_bytes():
                    pass


def _router_to(url: str) -> AbstractAsyncContextManager[Router]:
    entry = backend("US", url, dialect="openai", models=("chat",), slots=1)
    return start_router(router_config({"us-1": entry}, reader_timeout_s=0.2))


def _without_times(body: bytes) -> list[bytes]:
    return [line for line in body.split(b",") if not line.startswith(b'"created"')]
