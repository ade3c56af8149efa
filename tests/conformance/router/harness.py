"""A limit and the processes that share it, in memory on a clock moved by hand or in a real Redis."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from beacon_lifecycle import Clock, ManualClock, SystemClock
from beacon_redis import LuaScripts, RedisAddress
from beacon_router.limits import LimitEvent, RedisLimiter, SlotLimiter
from beacon_router.limits.port import SharedLimit, Token, TokenStatus
from tests.fixtures.memory_limiter import MemoryLimiter
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until

GPU = SharedLimit("group:modal", 3)
SCRIPTS = LuaScripts(Path(__file__).parent)


class LimiterHarness(Protocol):
    @property
    def lease_s(self) -> float: ...

    @property
    def clock(self) -> Clock: ...

    async def process(self) -> SlotLimiter:
        """The limiter of one more process."""
        ...

    async def pass_time(self, seconds: float) -> None: ...


class MemoryHarness:
    lease_s = 10.0

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._limiter = MemoryLimiter(self.clock, lease_s=self.lease_s)

    async def process(self) -> SlotLimiter:
        return self._limiter

    async def pass_time(self, seconds: float) -> None:
        await self.clock.advance(seconds)


class RedisHarness:
    """Leases are long, so that a slow machine loses none; `pass_time` makes them older without waiting."""

    lease_s = 60.0

    def __init__(self, url: str, closing: AsyncExitStack) -> None:
        self.url = url
        self.clock = ManualClock()
        self._closing = closing

    async def process(self) -> RedisLimiter:
        limiter = RedisLimiter(RedisAddress(self.url), SystemClock(), lease_s=self.lease_s)
        limiter.watch(GPU.name, lambda news: None)
        await limiter.start()
        self._closing.push_async_callback(limiter.stop)
        await until(lambda: _connected(limiter), "connected")
        return limiter

    async def pass_time(self, seconds: float) -> None:
        key = f"conc:{GPU.name}"
        async with RedisAddress(self.url).open() as redis:
            keys = [key, f"{key}:alive", f"{key}:seen"]
            await SCRIPTS.run(redis, "age", keys, [int(seconds * 1000)])
        await self.clock.advance(seconds)


@asynccontextmanager
async def redis_harness(url: str) -> AsyncIterator[RedisHarness]:
    async with AsyncExitStack() as closing:
        yield RedisHarness(url, closing)


class Inbox:
    """Records the events of one process."""

    def __init__(self) -> None:
        self.news: list[LimitEvent] = []
        self._came = asyncio.Event()

    def __call__(self, news: LimitEvent) -> None:
        self.news.append(news)
        self._came.set()

    def granted(self) -> set[Token]:
        return {token for news in self.news for token in news.tokens}

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while not condition():
                self._came.clear()
                await self._came.wait()


async def _connected(limiter: RedisLimiter) -> bool:
    return limiter.subscribed


async def status_of(limiter: SlotLimiter, token: Token, limit: SharedLimit = GPU) -> TokenStatus:
    """The state, by a renewal of this waiting token only."""
    return await limiter.renew(limit, [], [token])
