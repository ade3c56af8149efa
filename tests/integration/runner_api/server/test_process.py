"""The API as a process: start, stop, kill during its work."""

import asyncio
import signal
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from redis.asyncio import Redis

from beacon_contracts.ids import decode_job_id
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.database import Database
from tests.fixtures.runner_process import KEYS, api_process, command
from tests.fixtures.waiting import WAIT_TIMEOUT_S, within_timeout
from tests.integration.runner_api.harness import GENERATION
from tests.integration.runner_store.harness import StoreHarness


def client(url: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {KEYS['BEACON_BOOTSTRAP_ADMIN_KEY']}"}  # has no limits
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=WAIT_TIMEOUT_S)


async def test_bootstrap_creates_a_user_and_an_operator_once(database_url: str) -> None:
    for _ in range(2):
        code, output = await command("bootstrap", DATABASE_URL=database_url, **KEYS)
        assert code == 0, output
        assert KEYS["BEACON_BOOTSTRAP_USER_KEY"] not in output
    code, output = await command("bootstrap", DATABASE_URL=database_url)
    assert (code, "bk_" in output) == (0, False)


async def test_bootstrap_without_keys_generates_and_shows_them_once(database_url: str) -> None:
    _, first = await command("bootstrap", DATABASE_URL=database_url)
    assert "demo: bk_" in first
    assert "admin: bk_" in first
    _, second = await command("bootstrap", DATABASE_URL=database_url)
    assert "bk_" not in second


@pytest.mark.parametrize("key", ["a", "bk_short", "bk_12345678_" + "a" * 43])
async def test_bootstrap_refuses_keys_that_can_be_guessed(database_url: str, key: str) -> None:
    code, output = await command("bootstrap", DATABASE_URL=database_url, BEACON_BOOTSTRAP_ADMIN_KEY=key)
    assert code == 2
    assert "BEACON_BOOTSTRAP_ADMIN_KEY: Value error, must be bk_, 8" in output
    assert "Traceback" not in output


async def test_the_first_user_has_the_limits_of_a_tier(database_url: str) -> None:
    await command("bootstrap", DATABASE_URL=database_url, **KEYS)
    database = Database(database_url, size=1, name="test")
    await database.open()
    try:
        tiers = {user.name: user.tier for user in await PostgresUsers(database).page(None, 10)}
    finally:
        await database.close()
    assert tiers == {"demo": "creator", "admin": "admin"}


async def test_a_missing_environment_variable_is_named() -> None:
    code, output = await command("api", DATABASE_URL="", REDIS_URL="")
    assert code == 2
    assert "DATABASE_URL" in output
    assert "REDIS_URL" in output
    assert "Traceback" not in output


async def test_sigterm_answers_open_requests_and_exits_with_0(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    await command("bootstrap", DATABASE_URL=database_url, **KEYS)
    async with api_process(database_url, redis_url, tmp_path) as (process, url):
        async with client(url) as http:
            assert (await http.get("/readyz")).status_code == 200
            assert (await http.post("/api/v1/jobs", json=GENERATION)).status_code == 202
        process.send(signal.SIGTERM)
        async with within_timeout("the api ends"):
            assert await asyncio.to_thread(process.wait) == 0


async def test_an_endless_head_is_refused(database_url: str, redis_url: str, tmp_path: Path) -> None:
    async with api_process(database_url, redis_url, tmp_path) as (_, url):
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /healthz HTTP/1.1\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(10_000)))
        async with within_timeout("it is refused"):
            assert b" 400 " in await reader.readuntil(b"\r\n")
        writer.close()


async def test_a_job_answered_202_survives_kill_9(database_url: str, redis_url: str, tmp_path: Path) -> None:
    await command("bootstrap", DATABASE_URL=database_url, **KEYS)
    accepted: list[str] = []
    async with api_process(database_url, redis_url, tmp_path) as (process, url), client(url) as http:

        async def submit_until_dead() -> None:
            while True:
                try:
                    answer = await http.post("/api/v1/jobs", json=GENERATION)
                except httpx.HTTPError:
                    return
                assert answer.status_code == 202, answer.text
                accepted.append(answer.json()["job_id"])
                if len(accepted) == 40:
                    process.kill()

        await asyncio.gather(*(submit_until_dead() for _ in range(16)))
    assert len(accepted) >= 40
    database = Database(database_url, size=1)
    await database.open()
    try:
        harness = StoreHarness(database)
        stored = [await harness.queries.job(decode_job_id(job_id)) for job_id in accepted]
        assert all(job is not None for job in stored)
        in_outbox = {row["job_id"] for row in await database.fetch("SELECT job_id FROM outbox")}
        async with Redis.from_url(redis_url, decode_responses=True) as redis:
            in_redis = {UUID(hex=str(name).partition(":")[0]) for name in await redis.hkeys("jobs:live")}
        assert {decode_job_id(job_id) for job_id in accepted} <= in_outbox | in_redis
    finally:
        await database.close()
