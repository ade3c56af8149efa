"""Every test of this folder that uses a bed runs in memory, on Valkey and on Redis."""

from collections.abc import AsyncIterator

import pytest

from tests.conformance.router.bed import LimiterBed, MemoryBed, redis_bed

SERVERS = {"valkey": "redis_url", "redis": "stock_redis_url"}


@pytest.fixture(params=["memory", *SERVERS])
async def bed(request: pytest.FixtureRequest) -> AsyncIterator[LimiterBed]:
    if request.param == "memory":
        yield MemoryBed()
        return
    async with redis_bed(request.getfixturevalue(SERVERS[request.param])) as made:
        yield made
