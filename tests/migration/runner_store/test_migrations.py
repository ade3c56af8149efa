"""Migrations: forward and back, concurrent, and consistent with the code."""

import asyncio
import os
import re
import sys
from enum import StrEnum
from pathlib import Path

import asyncpg
import pytest

from beacon_contracts.accounts import Scope
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.queue.messages import Topic
from beacon_runner.migrations import head, migrate
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements
from tests.fixtures.statement_files import statement_files

CATALOGUE = (Path(__file__).parent / "sql" / "catalogue.sql").read_text(encoding="utf-8")
CHECKS = (Path(__file__).parent / "sql" / "checks.sql").read_text(encoding="utf-8")


async def catalogue(url: str) -> list[tuple[str, ...]]:
    """Every column, index, constraint and function as text."""
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(CATALOGUE)]
    finally:
        await connection.close()


async def test_down_and_up_give_the_same_schema(empty_database_url: str) -> None:
    await migrate.upgrade(empty_database_url)
    forward = await catalogue(empty_database_url)
    assert {"jobs", "outbox", "executions", "credit_ledger"} <= {row[1] for row in forward}
    await migrate.downgrade(empty_database_url, "base")
    assert [row for row in await catalogue(empty_database_url) if row[1] != "alembic_version"] == []
    await migrate.upgrade(empty_database_url)
    assert await catalogue(empty_database_url) == forward


async def test_the_version_is_the_head_once_migrated(empty_database_url: str) -> None:
    assert await migrate.current(empty_database_url) is None
    await migrate.upgrade(empty_database_url)
    assert await migrate.current(empty_database_url) == head()


async def test_concurrent_migrations_are_serialised(empty_database_url: str) -> None:
    environment = {**os.environ, "DATABASE_URL": empty_database_url}
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "beacon_runner", "migrate", env=environment
        )
        for _ in range(3)
    ]
    assert [await process.wait() for process in started] == [0, 0, 0]
    assert await migrate.current(empty_database_url) == head()


async def test_a_newer_version_is_reported_and_unchanged(empty_database_url: str) -> None:
    await migrate.upgrade(empty_database_url)
    connection = await asyncpg.connect(empty_database_url)
    try:
        await connection.execute("UPDATE alembic_version SET version_num = '9999'")
    finally:
        await connection.close()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "beacon_runner", "migrate"),
        env={**os.environ, "DATABASE_URL": empty_database_url},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 2
    assert said.decode() == (
        "the runner cannot migrate: the database is at 9999, "
        f"which this release does not know: it needs {head()}\n"
    )


@pytest.mark.parametrize("recorded", ["'another digest'", "NULL"])
async def test_a_database_of_an_earlier_draft_is_reported_and_unchanged(
    empty_database_url: str, recorded: str
) -> None:
    """Its version is the newest, so that Alembic has nothing to do, but the schema is an older one."""
    await migrate.upgrade(empty_database_url)
    await migrate.upgrade(empty_database_url)
    connection = await asyncpg.connect(empty_database_url)
    try:
        await connection.execute(f"COMMENT ON TABLE alembic_version IS {recorded}")
    finally:
        await connection.close()
    before = await catalogue(empty_database_url)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "beacon_runner", "migrate"),
        env={**os.environ, "DATABASE_URL": empty_database_url},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 2
    assert said.decode().startswith(
        f"the runner cannot migrate: the database was made by an earlier draft of version {head()}"
    )
    assert "`make clean`" in said.decode()
    assert await catalogue(empty_database_url) == before


async def test_every_statement_of_the_store_fits_the_newest_version(database_url: str) -> None:
    """A column that a statement needs and no migration creates fails here."""
    database = Database(database_url, size=1)
    await database.open()
    try:
        async with database.acquire() as connection:
            for file in statement_files():
                for statement in statements(file).values():
                    await connection.prepare(statement)
    finally:
        await database.close()


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ("jobs", "state", JobState),
        ("executions", "state", ExecutionState),
        ("outbox", "topic", Topic),
        ("api_keys", "scopes", Scope),
    ],
)
async def test_allowed_values_of_the_schema_are_those_of_the_code(
    database_url: str, table: str, column: str, words: type[StrEnum]
) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        definition = await connection.fetchval(CHECKS, f"{table}_{column}_check")
    finally:
        await connection.close()
    assert set(re.findall(r"'([\w:]+)'::text", definition)) == {str(word) for word in words}
