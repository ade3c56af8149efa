"""Every test of this folder runs on Valkey, on Redis and on a cluster of Valkey."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from beacon_redis import RedisAddress
from tests.conformance.runner_queue.cluster import flush, redis_cluster
from tests.conformance.runner_queue.harness import QueueHarness


@pytest.fixture(scope="session")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("redis-cluster")
    with redis_cluster(folder) as url:
        yield url


SERVERS = {"valkey": "redis_url", "redis": "stock_redis_url"}


@pytest.fixture(params=[*SERVERS, "cluster"])
def address(request: pytest.FixtureRequest) -> RedisAddress:
    if request.param in SERVERS:
        return RedisAddress(request.getfixturevalue(SERVERS[request.param]))
    url = request.getfixturevalue("cluster_url")
    flush(url)
    return RedisAddress(url, cluster=True)


@pytest.fixture
async def harness(address: RedisAddress) -> AsyncIterator[QueueHarness]:
    async with QueueHarness.on(address) as made:
        yield made
