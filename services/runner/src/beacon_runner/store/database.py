"""The pool of connections, set up for the store's statements."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import orjson
import structlog

from beacon_runner.domain.ports import StoreUnavailableError
from beacon_runner.store.errors import translated

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = PoolConnectionProxy[asyncpg.Record]

log = structlog.get_logger(__name__)

# Every statement looks rows up by key. A plan that was made while a table was empty must not read the whole
# table when it has a million rows, so plans that do are ruled out from the start.
_PLANNER = {"enable_seqscan": "off", "jit": "off"}

# A process that freezes in the middle of a transaction must not keep others from the rows it has locked. The
# first bound knows a transaction that waits for its process; one whose statement is prepared and not yet run
# looks busy, and only the second bound (PostgreSQL 17) ends it.
_FROZEN = {"idle_in_transaction_session_timeout": "5000", "transaction_timeout": "20000"}


class Database:
    """Connections to Postgres; `acquire` waits for a free one."""

    def __init__(self, url: str, *, size: int = 10, name: str = "beacon-runner") -> None:
        self._pool = asyncpg.create_pool(
            url,
            min_size=0,  # a process may start before its database
            max_size=size,
            max_inactive_connection_lifetime=0,  # a new connection would cost the first one after a pause
            init=_prepare,
            timeout=10,
            command_timeout=60,
            statement_cache_size=256,
            max_cached_statement_lifetime=0,
            server_settings={**_PLANNER, **_FROZEN, "application_name": name},
        )

    async def open(self) -> None:
        """Ready to connect; a first connection is made now if the database is there."""
        await self._pool
        try:
            async with self.acquire():
                pass
        except StoreUnavailableError as error:
            log.warning("database_not_there_yet", error=str(error))

    async def close(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def acquire(self) -> "AsyncIterator[Connection]":
        with translated():
            async with self._pool.acquire() as connection:
                yield connection

    @asynccontextmanager
    async def transaction(self) -> "AsyncIterator[Connection]":
        async with self.acquire() as connection, connection.transaction():
            yield connection

    async def fetch(self, statement: str, *values: Any) -> list[asyncpg.Record]:
        with translated():
            return await self._pool.fetch(statement, *values)

    async def fetchrow(self, statement: str, *values: Any) -> asyncpg.Record | None:
        with translated():
            return await self._pool.fetchrow(statement, *values)

    async def fetchval(self, statement: str, *values: Any) -> Any:
        with translated():
            return await self._pool.fetchval(statement, *values)

    async def execute(self, statement: str, *values: Any) -> str:
        with translated():
            return await self._pool.execute(statement, *values)


async def _prepare(connection: Any) -> None:
    """JSON goes through orjson; what is bytes already is JSON already."""
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=_encode, decoder=orjson.loads, format="binary"
    )


def _encode(value: Any) -> bytes:
    return value if isinstance(value, bytes) else orjson.dumps(value)
