"""One address for one server, a server behind Sentinel, or a cluster."""

import pytest
from redis.asyncio import Redis, RedisCluster

from beacon_redis import REDIS_ERRORS, RedisAddress

BEHIND_SENTINEL = RedisAddress("redis+sentinel://:secret@one:1,two/shop/3", timeout_s=2.0)


def test_an_address_names_the_kind_of_server() -> None:
    assert isinstance(RedisAddress("redis://one:1", cluster=True).open(), RedisCluster)
    assert isinstance(RedisAddress("redis://one:1").open(), Redis)


def test_a_sentinel_address_has_sentinels_service_and_database() -> None:
    client = BEHIND_SENTINEL.open()
    assert isinstance(client, Redis)
    pool = client.connection_pool
    assert repr(pool).count("shop") == 1
    assert pool.connection_kwargs["db"] == 3
    assert pool.connection_kwargs["password"] == "secret"
    assert BEHIND_SENTINEL.database == "3"


@pytest.mark.parametrize("address", [BEHIND_SENTINEL, RedisAddress("redis://one:1/3", timeout_s=2.0)])
def test_every_client_has_the_timeout_of_its_address(address: RedisAddress) -> None:
    client = address.open()
    assert isinstance(client, Redis)
    for opened in (client, address.open_for_subscriptions()):
        assert opened.connection_pool.connection_kwargs["socket_timeout"] == 2.0
        assert opened.connection_pool.connection_kwargs["socket_connect_timeout"] == 2.0


@pytest.mark.parametrize("error", [OSError("disk full"), TimeoutError("own timeout")])
def test_errors_of_other_code_are_no_redis_errors(error: Exception) -> None:
    assert not isinstance(error, REDIS_ERRORS)
