"""A connection that listens: it tells what is published as it comes, and says when it is broken."""

import asyncio
from pathlib import Path

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from beacon_redis import QuickRedis, RedisAddress
from tests.fixtures.redis_server import redis_server
from tests.fixtures.waiting import PATIENCE_S


def opened(url: str) -> QuickRedis:
    client = RedisAddress(url).open_listener()
    assert isinstance(client, QuickRedis)
    return client


async def test_each_channel_has_somebody_who_hears_it(redis_url: str) -> None:
    left: list[str] = []
    right: list[str] = []
    async with opened(redis_url) as client, RedisAddress(redis_url).open() as other:
        ear = await client.open_ear({"ear:left": left.append, "ear:right": right.append})
        for number in range(100):
            await other.publish("ear:left", f"{number} ü\r\n")
        await other.publish("ear:right", "one")
        await ear.stop_listening()
        assert await other.publish("ear:left", "too late") == 0
        ear.close()
    assert left == [f"{number} ü\r\n" for number in range(100)]
    assert right == ["one"]


async def test_it_answers_while_it_listens(redis_url: str) -> None:
    async with opened(redis_url) as client:
        ear = await client.open_ear({"ear:quiet": lambda _: None})
        assert await ear.call("PING") == ["pong", ""]
        assert not await ear.broken(0)
        ear.close()


async def test_it_says_at_once_that_the_server_has_gone(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with opened(server.url) as client:
            ear = await client.open_ear({"ear:quiet": lambda _: None})
            waiting = asyncio.ensure_future(ear.broken(PATIENCE_S))
            server.kill()
            assert await waiting
            with pytest.raises(RedisConnectionError):
                await ear.call("PING")
