"""Brings a database to a version, and says which one it has."""

import hashlib
import re
from collections.abc import Callable
from importlib.resources import files

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import Connection, MetaData, Table, func, select
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import SetTableComment

from beacon_runner.migrations import ChangedMigrationError, UnknownVersionError

VERSIONS = "alembic_version"  # its comment is the digest of the SQL that made the database


async def upgrade(database_url: str, revision: str = "head") -> None:
    """Raises `UnknownVersionError` for a database that a later release has migrated."""
    try:
        await _run(database_url, lambda config: command.upgrade(config, revision))
    except CommandError as error:
        raise UnknownVersionError(await current(database_url)) from error


async def downgrade(database_url: str, revision: str) -> None:
    await _run(database_url, lambda config: command.downgrade(config, revision))


async def current(database_url: str) -> str | None:
    """The database's version; None when it was never migrated."""
    engine = _engine(database_url)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(_version)
    finally:
        await engine.dispose()


async def _run(database_url: str, action: Callable[[Config], None]) -> None:
    def within(connection: Connection) -> None:
        config = _config()
        config.attributes["connection"] = connection
        before = _version(connection)
        action(config)
        if before is not None and _recorded(connection) != digest(before):
            raise ChangedMigrationError(before)
        table = Table(VERSIONS, MetaData(), comment=digest(_version(connection)))
        connection.execute(SetTableComment(table))

    engine = _engine(database_url)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(within)
    finally:
        await engine.dispose()


def digest(version: str | None) -> str:
    """Of the SQL up to a version, whatever its layout and comments."""
    scripts = sorted(files("beacon_runner.migrations").joinpath("sql").iterdir(), key=lambda file: file.name)
    made_by = [
        file
        for file in scripts
        if file.name.endswith("_up.sql") and file.name.partition("_")[0] <= (version or "")
    ]
    words = re.sub(r"--.*", "", "".join(file.read_text(encoding="utf-8") for file in made_by)).split()
    return hashlib.sha256(" ".join(words).encode()).hexdigest()


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _recorded(connection: Connection) -> str | None:
    return connection.scalar(select(func.obj_description(func.to_regclass(VERSIONS), "pg_class")))


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("beacon_runner.migrations")))
    return config


def _engine(database_url: str) -> AsyncEngine:
    # asyncpg reads the address itself: SQLAlchemy knows fewer of its options (sslmode, for one).
    return create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(database_url), poolclass=NullPool
    )
