"""Redis restarts, loses its data or is unavailable: holders keep their slots, and no limit is exceeded."""

from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from beacon_router.limits import RedisLimiter, Token
from beacon_router.limits.port import LimiterUnavailableError, TokenStatus
from tests.conformance.router.harness import GPU, RedisHarness, redis_harness
from tests.fixtures.redis_server import RedisServer, redis_server
from tests.fixtures.waiting import until

A, B, C, D = (Token(name) for name in "ABCD")


@pytest.fixture(params=["valkey", "redis"])
def program(request: pytest.FixtureRequest) -> Path | None:
    return None if request.param == "valkey" else request.getfixturevalue("redis_program")


@pytest.fixture(params=["forgets", "remembers"])
def server(request: pytest.FixtureRequest, tmp_path: Path, program: Path | None) -> Iterator[RedisServer]:
    with redis_server(tmp_path, durable=request.param == "remembers", program=program) as running:
        yield running


@pytest.fixture
async def harness(server: RedisServer) -> AsyncIterator[RedisHarness]:
    async with redis_harness(server.url) as made:
        yield made


async def test_holders_keep_their_slots_over_a_restart(harness: RedisHarness, server: RedisServer) -> None:
    holder, other = await harness.process(), await harness.process()
    await holder.acquire(GPU, [A, B, C])

    server.restart()
    early = await when_back(other, D)
    kept = await when_kept(holder)
    late = await other.renew(GPU, [], [D])

    assert early.held == frozenset()
    assert kept.held == {A, B, C}
    assert late.held == frozenset()


async def test_holders_keep_their_slots_after_a_flush(harness: RedisHarness) -> None:
    holder, other = await harness.process(), await harness.process()
    await holder.acquire(GPU, [A, B, C])

    async with Redis.from_url(harness.url) as admin:
        await admin.flushall()
    early = await other.acquire(GPU, [D])
    kept = await holder.renew(GPU, [A, B, C], [])

    assert early.held == frozenset()
    assert kept.held == {A, B, C}
    assert (await other.renew(GPU, [], [D])).held == frozenset()


async def test_a_silent_holder_keeps_its_slots_for_a_whole_lease_after_a_flush(harness: RedisHarness) -> None:
    holder, other = await harness.process(), await harness.process()
    await holder.acquire(GPU, [A, B, C])

    async with Redis.from_url(harness.url) as admin:
        await admin.flushall()
    await other.acquire(GPU, [D])
    await harness.pass_time(harness.lease_s * 0.8)
    late = await other.renew(GPU, [], [D])
    kept = await holder.renew(GPU, [A, B, C], [])

    assert late.held == frozenset()
    assert kept.held == {A, B, C}


async def test_slots_survive_an_outage_longer_than_the_lease(
    harness: RedisHarness, server: RedisServer
) -> None:
    holder, other = await harness.process(), await harness.process()
    await holder.acquire(GPU, [A, B, C])

    await harness.pass_time(harness.lease_s * 1.5)  # no calls meanwhile, as in an outage
    server.restart()
    early = await when_back(other, D)
    kept = await when_kept(holder)

    assert early.held == frozenset()
    assert kept.held == {A, B, C}


async def test_free_slots_are_granted_after_the_quiet_time(
    harness: RedisHarness, server: RedisServer
) -> None:
    other = await harness.process()
    await other.acquire(GPU, [A])

    server.restart()

    async def served() -> bool:
        await harness.pass_time(harness.lease_s / 4)
        try:
            return (await other.renew(GPU, [], [B, C, D])).held == {B, C, D}
        except LimiterUnavailableError:
            return False

    await until(served, "three free slots are given, the fourth holder being gone")


async def test_calls_fail_while_redis_is_unavailable(harness: RedisHarness, server: RedisServer) -> None:
    limiter = await harness.process()
    server.kill()

    with pytest.raises(LimiterUnavailableError):
        await limiter.acquire(GPU, [A])


async def when_back(limiter: RedisLimiter, token: Token) -> TokenStatus:
    return await until(lambda: unless_away(limiter.acquire(GPU, [token])), "Redis is back")


async def when_kept(limiter: RedisLimiter) -> TokenStatus:
    return await until(lambda: unless_away(limiter.renew(GPU, [A, B, C], [])), "Redis is back")


async def unless_away(asking: Awaitable[TokenStatus]) -> TokenStatus | None:
    try:
        return await asking
    except LimiterUnavailableError:
        return None
