from collections.abc import AsyncIterator

import pytest

from beacon_runner.postgres.database import Database
from tests.integration.runner_store.harness import StoreHarness


@pytest.fixture
async def harness(database_url: str) -> AsyncIterator[StoreHarness]:
    database = Database(database_url, size=5)
    await database.open()
    yield StoreHarness(database)
    await database.close()
