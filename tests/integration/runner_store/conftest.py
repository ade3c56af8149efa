from collections.abc import AsyncIterator

import pytest

from beacon_runner.postgres.database import Database
from tests.integration.runner_store.bed import Bed


@pytest.fixture
async def bed(database_url: str) -> AsyncIterator[Bed]:
    database = Database(database_url, size=5)
    await database.open()
    yield Bed(database)
    await database.close()
