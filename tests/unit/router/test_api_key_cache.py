"""Whose key it is: asked of the runner, remembered for a while, never by the key itself."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Header
from fastapi.responses import JSONResponse

from beacon_contracts.tiers import Tier
from beacon_lifecycle import ManualClock
from beacon_router.http.callers import Caller, CallerCache, RunnerUnavailableError

ALICE = {
    "user_id": "user_1",
    "name": "alice",
    "tier": "premium",
    "priority": "medium",
    "scopes": ["user"],
}


class Runner:
    """The part of the runner that the router talks to."""

    def __init__(self) -> None:
        self.asked = 0
        self.status: int | None = None
        self.app = FastAPI()
        self.app.get("/api/v1/me")(self.me)

    async def me(self, authorization: str = Header()) -> JSONResponse:
        self.asked += 1
        await asyncio.sleep(0)
        if self.status is not None:
            return JSONResponse({"detail": "away"}, self.status)
        if authorization != "Bearer alices-key":
            return JSONResponse({"code": "unknown_key"}, 401)
        return JSONResponse(ALICE)


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def book(runner: Runner, clock: ManualClock) -> AsyncIterator[CallerCache]:
    transport = httpx.ASGITransport(runner.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://runner") as client:
        yield CallerCache(client, clock)


async def test_a_key_is_resolved_to_its_user_and_tier(book: CallerCache) -> None:
    assert await book.caller_of("alices-key") == Caller("user_1", Tier.PREMIUM)


async def test_a_key_is_cached_for_a_minute(book: CallerCache, runner: Runner, clock: ManualClock) -> None:
    await book.caller_of("alices-key")
    await clock.advance(59)
    await book.caller_of("alices-key")
    assert runner.asked == 1

    await clock.advance(2)
    await book.caller_of("alices-key")
    assert runner.asked == 2


async def test_an_unknown_key_is_cached_briefly(
    book: CallerCache, runner: Runner, clock: ManualClock
) -> None:
    assert await book.caller_of("nobodys") is None
    assert await book.caller_of("nobodys") is None
    assert runner.asked == 1

    await clock.advance(6)
    await book.caller_of("nobodys")
    assert runner.asked == 2


async def test_concurrent_requests_share_one_lookup(book: CallerCache, runner: Runner) -> None:
    callers = await asyncio.gather(*(book.caller_of("alices-key") for _ in range(20)))

    assert {caller.user_id for caller in callers if caller} == {"user_1"}
    assert runner.asked == 1


async def test_an_unavailable_runner_does_not_reject_the_key(book: CallerCache, runner: Runner) -> None:
    runner.status = 503
    with pytest.raises(RunnerUnavailableError):
        await book.caller_of("alices-key")
    assert "Lock" not in repr(vars(book))  # nothing is left of a question without an answer

    runner.status = None
    assert await book.caller_of("alices-key") is not None


async def test_the_cache_holds_hashes_only(book: CallerCache) -> None:
    await book.caller_of("alices-key")

    assert "alices-key" not in repr(vars(book))


@pytest.mark.parametrize("key", ["schl\xfcssel", "\xc3\xa9", "a\tkey", "\x80"])
async def test_a_key_that_no_header_can_carry_is_unknown(book: CallerCache, runner: Runner, key: str) -> None:
    assert await book.caller_of(key) is None
    assert runner.asked == 0
