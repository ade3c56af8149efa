"""Brings a database to a version, and says which one it has."""

from collections.abc import Callable
from importlib.resources import files

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from beacon_runner.migrations import UnknownVersionError


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
            return await connection.run_sync(lambda c: MigrationContext.configure(c).get_current_revision())
    finally:
        await engine.dispose()


async def _run(database_url: str, action: Callable[[Config], None]) -> None:
    def within(connection: Connection) -> None:
        config = _config()
        config.attributes["connection"] = connection
        action(config)

    engine = _engine(database_url)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(within)
    finally:
        await engine.dispose()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("beacon_runner.migrations")))
    return config


def _engine(database_url: str) -> AsyncEngine:
    # asyncpg reads the address itself: SQLAlchemy knows fewer of its options (sslmode, for one).
    return create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(database_url), poolclass=NullPool
    )
