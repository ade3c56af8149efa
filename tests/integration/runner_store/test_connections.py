"""Connections are reused and always clean."""

import asyncio

import asyncpg
import pytest

from beacon_runner.domain.errors import StoreOutdatedError, StoreUnavailableError
from beacon_runner.postgres.database import Database, DatabaseTimeouts
from beacon_runner.postgres.errors import unavailable
from beacon_runner.postgres.jobs.job_queries import PostgresJobQueries
from tests.fixtures.waiting import until

DISK_FULL = "DO $$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'; END $$"
BACKEND = "SELECT pg_backend_pid()"
OPEN = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL"
ASLEEP = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"


@pytest.fixture
def impatient() -> DatabaseTimeouts:
    return DatabaseTimeouts(free_connection_s=0.2)


async def test_a_released_connection_is_reused(database_url: str) -> None:
    database = Database(database_url, size=4)
    await database.open()
    first = await database.fetchval(BACKEND)
    assert await database.fetchval(BACKEND) == first
    await database.close()


async def test_many_callers_share_few_connections(database_url: str) -> None:
    database = Database(database_url, size=2)
    await database.open()
    backends = await asyncio.gather(*(database.fetchval(BACKEND) for _ in range(50)))
    assert len(set(backends)) <= 2
    await database.close()


async def test_a_timeout_of_the_pool_is_reported_and_the_next_caller_served(
    database_url: str, impatient: DatabaseTimeouts
) -> None:
    database = Database(database_url, size=1, timeouts=impatient)
    await database.open()
    async with database.acquire():
        with pytest.raises(StoreUnavailableError):
            await database.fetchval(BACKEND)
    assert await database.fetchval(BACKEND)
    await database.close()


async def test_a_connection_that_the_server_closed_is_replaced(database_url: str) -> None:
    database, other = Database(database_url, size=2), Database(database_url, size=1)
    await database.open()
    await other.open()
    first = await database.fetchval(BACKEND)
    await other.execute("SELECT pg_terminate_backend($1, 5000)", first)
    for _ in range(3):  # the first one may still meet it
        try:
            assert await database.fetchval(BACKEND) != first
        except StoreUnavailableError:
            continue
    assert await database.fetchval(BACKEND) != first
    await other.close()
    await database.close()


async def test_a_connection_in_a_transaction_is_not_reused(database_url: str) -> None:
    database = Database(database_url, size=1)
    await database.open()
    async with database.acquire() as connection:
        await connection.execute("BEGIN")
        await connection.fetchval("SELECT pg_current_xact_id()")
    assert await database.fetchval(OPEN) is False
    await database.close()


async def test_a_cancelled_statement_leaves_a_clean_connection(database_url: str) -> None:
    database, other = Database(database_url, size=1), Database(database_url, size=1)
    await database.open()
    await other.open()
    leaving = asyncio.ensure_future(database.fetchval("SELECT pg_sleep(60)"))
    await until(lambda: other.fetchval(ASLEEP), "the statement runs")
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await database.fetchval(OPEN) is False
    await other.close()
    await database.close()


async def test_closing_waits_for_connections_in_use(database_url: str) -> None:
    database = Database(database_url, size=2)
    await database.open()
    async with database.acquire():
        closing = asyncio.ensure_future(database.close())
        await asyncio.sleep(0)
        assert not closing.done()
    async with asyncio.timeout(5):
        await closing


async def test_a_statement_is_prepared_again_after_a_change_of_its_table(database_url: str) -> None:
    """As during a migration: inside a transaction the driver cannot prepare it again."""
    database = Database(database_url, size=1)
    await database.open()
    await database.execute("CREATE TABLE changing (word text)")

    async def read() -> None:
        async with database.transaction() as connection:
            await connection.fetch("SELECT word FROM changing")

    await read()
    await database.execute("ALTER TABLE changing ALTER COLUMN word TYPE boolean USING true")
    with pytest.raises(StoreUnavailableError):
        await read()
    await read()
    await database.close()


async def test_a_full_disk_is_reported_although_reads_succeed(database_url: str) -> None:
    database = Database(database_url, size=1)
    await database.open()
    reader = PostgresJobQueries(database)
    assert await reader.version() is not None
    with pytest.raises(StoreUnavailableError):
        await database.execute(DISK_FULL)
    with pytest.raises(StoreUnavailableError, match="disk full"):
        await reader.version()
    await database.close()


async def test_a_server_that_is_too_old_is_named(database_url: str) -> None:
    """PostgreSQL 16 refuses the setting `transaction_timeout` as this one refuses an unknown setting."""
    with pytest.raises(asyncpg.exceptions.UndefinedObjectError) as refused:
        await asyncpg.connect(database_url, server_settings={"setting_of_a_later_version": "1"})
    error = unavailable(refused.value)
    assert not isinstance(error, StoreOutdatedError)
    assert "PostgreSQL 17 or later is required" in str(error)
