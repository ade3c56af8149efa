"""A Redis that restarts, forgets or stays away: who holds a slot keeps it, nobody gets one too many."""

from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from beacon_router.limits import RedisLimiter, Token
from beacon_router.limits.port import LimiterAwayError, Standing
from tests.conformance.router.bed import GPU, RedisBed, redis_bed
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
async def bed(server: RedisServer) -> AsyncIterator[RedisBed]:
    async with redis_bed(server.url) as made:
        yield made


async def test_holders_keep_their_slots_over_a_restart(bed: RedisBed, server: RedisServer) -> None:
    holder, other = await bed.process(), await bed.process()
    await holder.acquire(GPU, [A, B, C])

    server.restart()
    early = await when_back(other, D)
    kept = await when_kept(holder)
    late = await other.renew(GPU, [], [D])

    assert early.held == frozenset()
    assert kept.held == {A, B, C}
    assert late.held == frozenset()


async def test_holders_keep_their_slots_when_all_is_flushed(bed: RedisBed) -> None:
    holder, other = await bed.process(), await bed.process()
    await holder.acquire(GPU, [A, B, C])

    async with Redis.from_url(bed.url) as admin:
        await admin.flushall()
    early = await other.acquire(GPU, [D])
    kept = await holder.renew(GPU, [A, B, C], [])

    assert early.held == frozenset()
    assert kept.held == {A, B, C}
    assert (await other.renew(GPU, [], [D])).held == frozenset()


async def test_an_outage_longer_than_the_lease_costs_nobody_a_slot(
    bed: RedisBed, server: RedisServer
) -> None:
    holder, other = await bed.process(), await bed.process()
    await holder.acquire(GPU, [A, B, C])

    await bed.pass_time(bed.lease_s * 1.5)  # nobody speaks meanwhile, as in an outage
    server.restart()
    early = await when_back(other, D)
    kept = await when_kept(holder)

    assert early.held == frozenset()
    assert kept.held == {A, B, C}


async def test_after_the_quiet_time_free_slots_are_given_again(bed: RedisBed, server: RedisServer) -> None:
    other = await bed.process()
    await other.acquire(GPU, [A])

    server.restart()

    async def served() -> bool:
        await bed.pass_time(bed.lease_s / 4)
        try:
            return (await other.renew(GPU, [], [B, C, D])).held == {B, C, D}
        except LimiterAwayError:
            return False

    await until(served, "three free slots are given, the fourth holder being gone")


async def test_while_it_is_away_asking_says_so(bed: RedisBed, server: RedisServer) -> None:
    limiter = await bed.process()
    server.kill()

    with pytest.raises(LimiterAwayError):
        await limiter.acquire(GPU, [A])


async def when_back(limiter: RedisLimiter, token: Token) -> Standing:
    return await until(lambda: unless_away(limiter.acquire(GPU, [token])), "Redis is back")


async def when_kept(limiter: RedisLimiter) -> Standing:
    return await until(lambda: unless_away(limiter.renew(GPU, [A, B, C], [])), "Redis is back")


async def unless_away(asking: Awaitable[Standing]) -> Standing | None:
    try:
        return await asking
    except LimiterAwayError:
        return None
