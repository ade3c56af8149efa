"""A user has a limited number of event streams and WebSockets, in all processes together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.fixtures.waiting import until, within_timeout
from tests.fixtures.wire import Wire, wire_to
from tests.integration.live.stalled import StalledClient, socket_request, stream_request
from tests.integration.runner_api.harness import CONFIG, GENERATION, ApiHarness, Caller, api_harness

PREMIUM = CONFIG.tiers["premium"].model_copy(update={"streams": 2})
TWO_STREAMS = CONFIG.model_copy(update={"tiers": CONFIG.tiers | {"premium": PREMIUM}})


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiHarness]:
    async with api_harness(database_url, redis_url, TWO_STREAMS) as harness:
        yield harness


async def test_streams_of_one_user_are_limited(api: ApiHarness, address: str, anna: Caller) -> None:
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
            assert headers["x-ratelimit-limit-streams"] == "2"
            assert (problem["limit_name"], problem["limit"], problem["used"]) == ("streams", 2, 2)
    limits = (await anna.get("/api/v1/me"))["limits"]
    assert limits["streams"] == {"limit": 2, "used": 2, "left": 0, "resets_in_s": None}

    ben = await api.user("ben")
    other = await StalledClient.to(address, stream_request(ben, await ben.submit(GENERATION)))
    await until(lambda: len(api.watchers) == 3, "another user is not limited by it")
    for client in (*clients, other):
        client.close()
    await until(lambda: not len(api.watchers), "all are disconnected")
    again = await StalledClient.to(address, stream_request(anna, job))
    await until(lambda: len(api.watchers) == 1, "the user may open streams again")
    again.close()


async def test_concurrent_requests_do_not_exceed_the_limit(
    api: ApiHarness, address: str, anna: Caller
) -> None:
    job = await anna.submit(GENERATION)
    requests = [stream_request(anna, job), socket_request(anna, job)] * 4

    async def status_of(wire: Wire, request: bytes) -> bytes:
        await wire.send(request)
        async with within_timeout("a response"):
            return (await wire.reader.readline()).split()[1]

    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(wire_to(address)) for _ in requests]
        statuses = await asyncio.gather(*map(status_of, wires, requests))
        assert (len(statuses), statuses.count(b"429")) == (8, 6)


async def test_all_processes_share_the_limit(
    api: ApiHarness, address: str, anna: Caller, database_url: str, redis_url: str
) -> None:
    job = await anna.submit(GENERATION)
    clients = [await StalledClient.to(address, stream_request(anna, job)) for _ in range(2)]
    await until(lambda: len(api.watchers) == 2, "both are watching")
    async with api_harness(database_url, redis_url, TWO_STREAMS) as other:
        again = other.caller(anna.http.headers["authorization"].removeprefix("Bearer "))
        answer = await again.http.get(f"/api/v1/jobs/{job}/events", headers={"accept": "text/event-stream"})
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_streams")
    for client in clients:
        client.close()
