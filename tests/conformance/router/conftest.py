"""Every test of this folder that asks for a bed runs in memory and on Redis."""

from collections.abc import AsyncIterator

import pytest

from tests.conformance.router.bed import LimiterBed, MemoryBed, redis_bed


@pytest.fixture(params=["memory", "redis"])
async def bed(request: pytest.FixtureRequest) -> AsyncIterator[LimiterBed]:
    if request.param == "memory":
        yield MemoryBed()
        return
    async with redis_bed(request.getfixturevalue("redis_url")) as made:
        yield made
