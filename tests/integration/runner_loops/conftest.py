from collections.abc import AsyncIterator

import pytest

from tests.integration.runner_loops.bed import LoopBed


@pytest.fixture
async def bed(database_url: str, redis_url: str) -> AsyncIterator[LoopBed]:
    async with LoopBed.on(database_url, redis_url) as made:
        yield made
