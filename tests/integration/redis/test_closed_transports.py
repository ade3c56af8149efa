"""uvloop says RuntimeError where a transport was closed a moment ago: callers hear of a lost connection."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop
from redis.exceptions import ConnectionError as RedisConnectionError

from beacon_redis import QuickRedis, RedisAddress
from beacon_redis.line import Line

Act = Callable[[QuickRedis], Awaitable[None]]


def on_uvloop(url: str, act: Act) -> None:
    async def main() -> None:
        client = RedisAddress(url).open_listener()
        assert isinstance(client, QuickRedis)
        async with client:
            await act(client)

    uvloop.run(main())


async def write_to_closed(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    await writer.wait_closed()
    writer.write(b"PING\r\n")


def test_a_command_that_meets_a_closed_connection_has_lost_it(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(client: QuickRedis) -> None:
        await client.ping()
        pool: Any = client.connection_pool
        (connection,) = pool._available_connections
        send = connection.send_packed_command

        async def send_late(*arguments: Any, **options: Any) -> None:
            connection._writer.transport.abort()  # after the pool has looked at it
            await send(*arguments, **options)

        monkeypatch.setattr(connection, "send_packed_command", send_late)
        with pytest.raises(RedisConnectionError):
            await client.ping()
        monkeypatch.undo()
        assert await client.ping()

    on_uvloop(redis_url, act)


def test_a_sentinel_whose_connection_has_just_closed_is_a_redis_out_of_reach(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(client: QuickRedis) -> None:
        options = client.connection_pool.connection_kwargs

        async def ask_over_closed(line: Line) -> None:
            _, writer = await asyncio.open_connection(options["host"], options["port"])
            await write_to_closed(writer)

        monkeypatch.setattr(client, "_reach", ask_over_closed)
        with pytest.raises(RedisConnectionError):
            await client.open_ear({})
        with pytest.raises(RedisConnectionError):
            await client.evalsha("0" * 40, 0)

    on_uvloop(redis_url, act)
