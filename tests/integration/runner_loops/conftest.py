from collections.abc import AsyncIterator

import pytest

from tests.integration.runner_loops.harness import LoopHarness


@pytest.fixture
async def harness(database_url: str, redis_url: str) -> AsyncIterator[LoopHarness]:
    async with LoopHarness.on(database_url, redis_url) as made:
        yield made
