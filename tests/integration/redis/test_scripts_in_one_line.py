"""Scripts share one connection: answers find their callers, and a broken connection is replaced."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import AuthenticationError, NoScriptError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from beacon_redis import RedisAddress
from tests.fixtures.redis_server import redis_server

SAY = "return ARGV[1]"
REFUSE = "return redis.error_reply('NOPE ' .. ARGV[1])"
NEVER_LOADED = "0" * 40


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis | RedisCluster]:
    async with RedisAddress(redis_url).open() as client:
        yield client


async def test_everyone_gets_the_answer_to_their_own_question(redis: Redis) -> None:
    sha = await redis.script_load(SAY)
    asked = [f"{number} ü\r\n" for number in range(200)]
    assert await asyncio.gather(*(redis.evalsha(sha, 0, text) for text in asked)) == asked


async def test_a_caller_that_leaves_takes_nobody_elses_answer_along(redis: Redis) -> None:
    sha = await redis.script_load(SAY)
    callers = [asyncio.ensure_future(redis.evalsha(sha, 0, str(number))) for number in range(20)]
    await asyncio.sleep(0)  # all have asked
    for leaving in callers[::2]:
        leaving.cancel()
    assert await asyncio.gather(*callers[1::2]) == [str(number) for number in range(1, 20, 2)]
    assert await redis.evalsha(sha, 0, "still here") == "still here"


async def test_refusals_are_told_to_the_one_who_asked(redis: Redis) -> None:
    say, refuse = await redis.script_load(SAY), await redis.script_load(REFUSE)
    questions = [redis.evalsha(refuse, 0, "no"), redis.evalsha(say, 0, "yes"), redis.evalsha(NEVER_LOADED, 0)]
    refused, answered, unknown = list(await asyncio.gather(*questions, return_exceptions=True))
    assert isinstance(refused, ResponseError)
    assert str(refused) == "NOPE no"
    assert answered == "yes"
    assert isinstance(unknown, NoScriptError)


async def test_it_works_in_the_database_of_the_address(redis: Redis) -> None:
    await redis.set("here", "yes")
    sha = await redis.script_load("return redis.call('GET', KEYS[1])")
    assert await redis.evalsha(sha, 1, "here") == "yes"


async def test_a_restarted_server_is_found_again(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with RedisAddress(server.url).open() as client:
            sha = await client.script_load(SAY)
            assert await client.evalsha(sha, 0, "before") == "before"
            server.kill()
            with pytest.raises(RedisConnectionError):
                await client.evalsha(sha, 0, "meanwhile")
            server.start()
            assert await client.script_load(SAY) == sha
            assert await client.evalsha(sha, 0, "after") == "after"


async def test_a_wrong_password_is_named(redis_url: str) -> None:
    wrong = RedisAddress(redis_url.replace("redis://:", "redis://:wrong", 1))
    async with wrong.open() as client:
        with pytest.raises((AuthenticationError, ResponseError)):
            await client.evalsha(NEVER_LOADED, 0)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", RedisTimeoutError),
        (b"-LOADING the dataset\r\n", RedisConnectionError),
        (b"-READONLY you cannot write against a replica\r\n", RedisError),
        (b"not the protocol of Redis\r\n", RedisConnectionError),
    ],
)
async def test_a_server_that_is_not_well_is_left(answer: bytes, expected: type[Exception]) -> None:
    visits, gone = 0, asyncio.Event()

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        await reader.readuntil(b"\r\n")
        writer.write(answer)
        while await reader.read(1_000):
            pass
        gone.set()
        writer.close()

    async with await asyncio.start_server(visited, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with RedisAddress(f"redis://127.0.0.1:{port}", timeout_s=0.2).open() as client:
            with pytest.raises(expected):
                await client.evalsha(NEVER_LOADED, 0)
            await gone.wait()  # its connection is closed: the next question asks for a new one
            before = visits
            with pytest.raises(expected):
                await client.evalsha(NEVER_LOADED, 0)
            assert visits > before


async def test_closing_tells_those_who_wait() -> None:
    asked = asyncio.Event()

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n")
        asked.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(visited, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = RedisAddress(f"redis://127.0.0.1:{port}").open()
        waiting = asyncio.ensure_future(client.evalsha(NEVER_LOADED, 0))
        await asked.wait()
        server.close()  # so that nobody can come back
        await client.aclose()
        with pytest.raises(RedisConnectionError):
            await waiting
