"""The output of a test run."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from redis.asyncio import Redis

from beacon_devstack.servers.redis import EmbeddedRedis
from tests.fixtures.scratch import scratch_home
from tests.fixtures.server_pair import ServerPair

ROOT = Path(__file__).parents[3]
ONE_FILE = "tests/integration/devstack/test_fixtures.py"
ONE_TEST = f"{ONE_FILE}::test_each_redis_database_is_empty_and_exclusive"


def run_tests(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_missing_docker_engine_gives_one_error_line(workers: str, tmp_path: Path) -> None:
    done = run_tests(
        "-n", workers, ONE_TEST, BEACON_TEST_SERVERS="docker", DOCKER_HOST=f"unix://{tmp_path}/no-engine"
    )
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert said.count("make test-docker needs a running Docker engine and none answers") == 1
    assert "Traceback" not in said


@pytest.fixture
async def foreign_redis() -> AsyncIterator[str]:
    with scratch_home() as home:
        async with EmbeddedRedis(home, password="a-password") as redis:
            yield redis.url_of(1)


async def test_given_servers_are_used_and_left_unchanged(servers: ServerPair, foreign_redis: str) -> None:
    before = await templates_on(servers)
    async with Redis.from_url(foreign_redis) as client:
        await client.set("existing-key", "data")
        done = await asyncio.to_thread(
            run_tests, ONE_FILE, DATABASE_URL=servers.database_url, REDIS_URL=foreign_redis
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert await client.get("existing-key") == b"data"
    assert await templates_on(servers) - before <= {servers.template}


async def templates_on(servers: ServerPair) -> set[str]:
    connection = await asyncpg.connect(servers.database_url)
    try:
        rows = await connection.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'beacon_template%'")
        return {row["datname"] for row in rows}
    finally:
        await connection.close()
