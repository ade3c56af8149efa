from collections.abc import AsyncIterator

import pytest

from tests.integration.runner_api.harness import ApiHarness, Caller, api_harness


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiHarness]:
    async with api_harness(database_url, redis_url) as harness:
        yield harness


@pytest.fixture
async def anna(api: ApiHarness) -> Caller:
    return await api.user("anna")
