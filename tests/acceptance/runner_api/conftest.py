from collections.abc import AsyncIterator

import pytest

from tests.integration.runner_api.bed import ApiBed, Caller, api_bed


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiBed]:
    async with api_bed(database_url, redis_url) as bed:
        yield bed


@pytest.fixture
async def anna(api: ApiBed) -> Caller:
    return await api.user("anna")
