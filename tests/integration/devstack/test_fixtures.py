"""The fixtures of all tests: separate databases, empty or migrated, on real servers."""

import asyncpg
import pytest
from redis.asyncio import Redis

from tests.fixtures.databases import Databases
from tests.fixtures.redis_databases import RedisDatabases, shares


async def test_each_redis_database_is_empty_and_exclusive(redis_databases: RedisDatabases) -> None:
    with redis_databases.lease() as first, redis_databases.lease() as second:
        assert first != second
        async with Redis.from_url(first) as client, Redis.from_url(second) as other:
            await client.set("mine", 1)
            assert await other.dbsize() == 0
    with redis_databases.lease() as again:
        async with Redis.from_url(again) as client:
            assert await client.dbsize() == 0


def test_workers_share_out_the_redis_databases_without_overlap() -> None:
    parts = [set(shares(64, worker, 3)) for worker in range(3)]
    assert set.union(*parts) == set(range(1, 64))
    assert sum(len(part) for part in parts) == 63


async def test_a_database_is_dropped_after_its_test(test_databases: Databases) -> None:
    with test_databases.clone("template0") as url:
        connection = await asyncpg.connect(url)
        assert await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
        await connection.close()
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(url)


async def test_an_open_connection_does_not_prevent_the_drop_of_a_database(test_databases: Databases) -> None:
    with test_databases.clone("template0") as url:
        connection = await asyncpg.connect(url)
    with pytest.raises((asyncpg.PostgresError, OSError, asyncpg.InterfaceError)):
        await connection.fetchval("SELECT 1")
    connection.terminate()


async def test_a_migrated_database_is_a_clone_of_the_template(
    database_url: str, test_databases: Databases, template: str
) -> None:
    connection = await asyncpg.connect(database_url)
    assert await connection.fetchval("SELECT count(*) FROM alembic_version") == 1
    await connection.execute("DROP TABLE alembic_version")
    await connection.close()
    with test_databases.clone(template) as other:
        connection = await asyncpg.connect(other)
        assert await connection.fetchval("SELECT count(*) FROM alembic_version") == 1
        await connection.close()


async def test_an_empty_database_has_no_tables(empty_database_url: str) -> None:
    connection = await asyncpg.connect(empty_database_url)
    assert await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    await connection.close()
