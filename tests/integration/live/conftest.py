from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.runner_api.bed import ApiBed, Caller, api_bed, served


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiBed]:
    async with api_bed(database_url, redis_url) as bed:
        yield bed


@pytest.fixture
async def address(api: ApiBed, tmp_path: Path) -> AsyncIterator[str]:
    """The same API on a real socket."""
    async with served(api, api.transport.app, tmp_path) as address:
        yield address


@pytest.fixture
async def anna(api: ApiBed) -> Caller:
    return await api.user("anna")
