"""Every test of this folder that uses a harness runs in memory, on Valkey and on Redis."""

from collections.abc import AsyncIterator

import pytest

from tests.conformance.router.harness import LimiterHarness, MemoryHarness, redis_harness

SERVERS = {"valkey": "redis_url", "redis": "stock_redis_url"}


@pytest.fixture(params=["memory", *SERVERS])
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[LimiterHarness]:
    if request.param == "memory":
        yield MemoryHarness()
        return
    async with redis_harness(request.getfixturevalue(SERVERS[request.param])) as made:
        yield made
