"""Connections beyond the limit get 503, while health checks and metrics are served."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from beacon_contracts.problem import Problem
from beacon_runner.router_client.replies import TOO_MANY_CONNECTIONS
from tests.fixtures.gpusim import start_gpusim
from tests.fixtures.router import TOKEN, Router, backend, router_config, start_router
from tests.fixtures.waiting import until, within_timeout
from tests.fixtures.wire import Wire, wire_to

MAX_CONNECTIONS, SURPLUS = 3, 8
KEY = f"host: router\r\nauthorization: Bearer {TOKEN}\r\n"
GET_STATUS = f"GET /queue/status HTTP/1.1\r\n{KEY}\r\n".encode()
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: router\r\n\r\n"
FIGURES = b"GET /metrics HTTP/1.1\r\nhost: router\r\n\r\n"


@pytest.fixture
async def router() -> AsyncIterator[Router]:
    async with start_gpusim(region="US", slots=1, default_load=0, default_run=0) as gpu:
        entry = backend("US", gpu.url, slots=1)
        config = router_config({"us-1": entry}, connections=MAX_CONNECTIONS, head_timeout_s=1_000)
        async with start_router(config) as router:
            yield router


@pytest.fixture
async def guests(router: Router) -> AsyncIterator[list[Wire]]:
    """Served connections, as many as the limit allows."""
    async with AsyncExitStack() as stack:
        guests = [await stack.enter_async_context(wire_to(router.url)) for _ in range(MAX_CONNECTIONS)]
        for wire in guests:
            await wire.send(GET_STATUS)
            assert (await wire.answer())[0] == 200
        yield guests


async def test_a_connection_beyond_the_limit_gets_503(router: Router, guests: list[Wire]) -> None:
    async with wire_to(router.url) as wire:
        await wire.send(GET_STATUS + GET_STATUS)
        status, headers, document = await wire.answer()
        assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
        problem = Problem.model_validate(document)
        assert (problem.status, problem.code) == (503, TOO_MANY_CONNECTIONS)
        assert await wire.ended()
    for wire in guests:
        await wire.send(GET_STATUS)
        assert (await wire.answer())[0] == 200


async def test_a_client_that_is_sending_reads_the_refusal(router: Router, guests: list[Wire]) -> None:
    async with wire_to(router.url) as wire:
        await wire.send(f"POST /inference HTTP/1.1\r\n{KEY}content-length: 8000000\r\n\r\n".encode())
        for _ in range(80):
            await wire.send(b" " * 100_000)
        assert (await wire.answer())[0] == 503


async def test_health_and_metrics_are_served_beyond_the_limit(router: Router, guests: list[Wire]) -> None:
    for ask in (HEALTH, b"GET /readyz HTTP/1.1\r\nhost: router\r\n\r\n"):
        async with wire_to(router.url) as wire:
            await wire.send(ask + GET_STATUS)
            status, headers, _ = await wire.answer()
            assert (status, headers["connection"]) == (200, "close")
            assert await wire.ended()
    async with wire_to(router.url) as wire:
        await wire.send(GET_STATUS)
        await wire.answer()
    async with wire_to(router.url) as wire:
        await wire.send(FIGURES)
        async with within_timeout("the figures come"):
            figures = (await wire.reader.read()).decode()
    assert f"beacon_router_http_connections {MAX_CONNECTIONS + 1}.0" in figures
    assert "beacon_router_http_connections_refused_total 4.0" in figures


async def test_a_closed_connection_makes_room(router: Router, guests: list[Wire]) -> None:
    guests[0].hang_up()

    async def is_served() -> bool:
        async with wire_to(router.url) as wire:
            await wire.send(GET_STATUS)
            return (await wire.answer())[0] == 200

    await until(is_served, "there is room again")


async def test_connections_beyond_the_surplus_are_aborted(router: Router, guests: list[Wire]) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(SURPLUS):
            wire = await stack.enter_async_context(wire_to(router.url))
            await wire.send(b"GET /queue")  # in no hurry
        wire = await stack.enter_async_context(wire_to(router.url))
        assert await wire.ended()
