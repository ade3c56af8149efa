"""redis-py clients as `RedisAddress` opens them: errors, restarts, closed connections."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from beacon_redis import REDIS_ERRORS, LuaScripts, RedisAddress
from beacon_redis.address import MAX_CONNECTIONS
from tests.fixtures.redis_server import redis_server

NEVER_LOADED = "0" * 40


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis | RedisCluster]:
    async with RedisAddress(redis_url).open() as client:
        yield client


async def test_more_commands_than_connections_wait_for_a_free_one(redis: Redis) -> None:
    sha = await redis.script_load("return ARGV[1]")
    sent = [f"{number} ü\r\n" for number in range(4 * MAX_CONNECTIONS)]
    assert await asyncio.gather(*(redis.evalsha(sha, 0, text) for text in sent)) == sent


async def test_a_script_that_the_server_lost_is_sent_again(redis: Redis, tmp_path: Path) -> None:
    (tmp_path / "echo.lua").write_text("-- include shared.lua\nreturn prefix .. ARGV[1]")
    (tmp_path / "shared.lua").write_text("local prefix = KEYS[1]")
    scripts = LuaScripts(tmp_path)
    for _ in range(2):
        assert await scripts.run(redis, "echo", ["key:"], ["value"]) == "key:value"
        await redis.script_flush()


async def test_a_restarted_server_is_reached_with_the_first_command(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with RedisAddress(server.url).open() as client:
            assert await client.ping()
            server.kill()
            with pytest.raises(RedisConnectionError):
                await client.ping()
            server.start()
            assert await client.ping()
            server.restart()
            assert await client.ping()


async def test_a_wrong_password_is_a_redis_error(redis_url: str) -> None:
    wrong = RedisAddress(redis_url.replace("redis://:", "redis://:wrong", 1))
    async with wrong.open() as client:
        with pytest.raises(RedisError):
            await client.ping()


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (b"", RedisTimeoutError),
        (b"-LOADING the dataset\r\n", RedisConnectionError),
        (b"-READONLY you cannot write against a replica\r\n", RedisError),
        (b"not the protocol of Redis\r\n", RedisError),
    ],
)
async def test_an_unhealthy_server_raises_redis_errors(reply: bytes, expected: type[Exception]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1_000):
            writer.write(reply)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with RedisAddress(f"redis://127.0.0.1:{port}", timeout_s=0.2).open() as client:
            with pytest.raises(expected):
                await client.evalsha(NEVER_LOADED, 0)


@pytest.mark.parametrize("cluster", [False, True])
async def test_an_unreachable_server_raises_redis_errors(cluster: bool) -> None:
    with pytest.raises(REDIS_ERRORS):
        async with RedisAddress("redis://127.0.0.1:1", cluster=cluster).open() as client:
            await client.get("key")


@pytest.mark.parametrize("retries", [0, 1])
def test_a_write_to_a_closed_connection_of_uvloop_is_a_lost_connection(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, retries: int
) -> None:
    """uvloop raises RuntimeError where asyncio raises an OSError."""

    async def main() -> None:
        address = RedisAddress(redis_url)
        client: Any = address.open() if retries else address.open_for_subscriptions()
        async with client:
            await client.ping()
            pool = client.connection_pool
            connection = await pool.get_connection()
            await pool.release(connection)
            send = connection.send_packed_command

            async def close_and_send(*arguments: Any, **options: Any) -> None:
                monkeypatch.undo()
                connection._writer.transport.abort()
                await send(*arguments, **options)

            monkeypatch.setattr(connection, "send_packed_command", close_and_send)
            if retries:
                assert await client.ping()
            else:
                with pytest.raises(RedisConnectionError):
                    await client.ping()

    uvloop.run(main())
