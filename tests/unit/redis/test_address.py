"""One address for one Redis, a Redis behind Sentinel, or a Redis Cluster."""

import pytest
from redis.asyncio import Redis, RedisCluster

from beacon_redis import RedisAddress

BEHIND_SENTINEL = RedisAddress("redis+sentinel://:secret@one:1,two/shop/3", timeout_s=2.0)


def test_an_address_says_which_kind_of_server_it_is() -> None:
    assert isinstance(RedisAddress("redis://one:1", cluster=True).open(), RedisCluster)
    assert isinstance(RedisAddress("redis://one:1").open(), Redis)


def test_an_address_behind_sentinel_names_the_watchers_the_service_and_the_database() -> None:
    hosts, service, options = BEHIND_SENTINEL._sentinel_parts()
    assert hosts == [("one", 1), ("two", 26379)]
    assert (service, options["db"], options["password"]) == ("shop", 3, "secret")


@pytest.mark.parametrize("address", [BEHIND_SENTINEL, RedisAddress("redis://one:1/3", timeout_s=2.0)])
def test_only_a_listener_reads_without_limit(address: RedisAddress) -> None:
    commands, listener = address.open(), address.open_listener(reads_for_ever=True)
    assert isinstance(commands, Redis)
    assert commands.connection_pool.connection_kwargs["socket_timeout"] == 2.0
    assert listener.connection_pool.connection_kwargs["socket_timeout"] is None
    assert listener.connection_pool.connection_kwargs["socket_connect_timeout"] == 2.0
    assert address.database == "3"
