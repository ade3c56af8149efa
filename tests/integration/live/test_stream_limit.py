"""One API key has a limited number of event streams and WebSockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.fixtures.waiting import patience, until
from tests.fixtures.wire import Wire, wire_to
from tests.integration.live.stalled import StalledClient, socket_request, stream_request
from tests.integration.runner_api.harness import CONFIG, GENERATION, ApiHarness, Caller, api_harness

TWO_STREAMS = CONFIG.model_copy(update={"limits": CONFIG.limits.model_copy(update={"streams_per_key": 2})})


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiHarness]:
    async with api_harness(database_url, redis_url, TWO_STREAMS) as harness:
        yield harness


async def test_streams_of_one_key_are_limited(api: ApiHarness, address: str, anna: Caller) -> None:
    job = await anna.submit(GENERATION)
    requests = (stream_request(anna, job), socket_request(anna, job))
    clients = [await StalledClient.to(address, request) for request in requests]
    await until(lambda: len(api.watchers) == 2, "both are watching")
    for request in requests:
        async with wire_to(address) as wire:
            await wire.send(request)
            status, headers, problem = await wire.answer()
            assert (status, problem["code"]) == (429, "too_many_streams")
            assert int(headers["retry-after"]) >= 1

    ben = await api.user("ben")
    other = await StalledClient.to(address, stream_request(ben, await ben.submit(GENERATION)))
    await until(lambda: len(api.watchers) == 3, "another key is not limited by it")
    for client in (*clients, other):
        client.close()
    await until(lambda: not len(api.watchers), "all are disconnected")
    again = await StalledClient.to(address, stream_request(anna, job))
    await until(lambda: len(api.watchers) == 1, "the key may open streams again")
    again.close()


async def test_concurrent_requests_do_not_exceed_the_limit(
    api: ApiHarness, address: str, anna: Caller
) -> None:
    job = await anna.submit(GENERATION)
    requests = [stream_request(anna, job), socket_request(anna, job)] * 4

    async def status_of(wire: Wire, request: bytes) -> bytes:
        await wire.send(request)
        async with patience("a response"):
            return (await wire.reader.readline()).split()[1]

    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(wire_to(address)) for _ in requests]
        statuses = await asyncio.gather(*map(status_of, wires, requests))
        assert (len(statuses), statuses.count(b"429")) == (8, 6)
