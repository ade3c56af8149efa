from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.runner_api.harness import ApiHarness, Caller, api_harness, served


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiHarness]:
    async with api_harness(database_url, redis_url) as harness:
        yield harness


@pytest.fixture
async def address(api: ApiHarness, tmp_path: Path) -> AsyncIterator[str]:
    """The same API on a real socket."""
    async with served(api, api.transport.app, tmp_path) as address:
        yield address


@pytest.fixture
async def anna(api: ApiHarness) -> Caller:
    return await api.user("anna")
