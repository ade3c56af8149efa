"""The pool of connections, set up for the store's statements."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from uuid import UUID

import asyncpg
import orjson
import structlog

from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.postgres.errors import CONFLICTS, UNAVAILABLE, unavailable

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = PoolConnectionProxy[asyncpg.Record]

log = structlog.get_logger(__name__)

# Every statement finds rows by key. A plan made while a table was empty must not scan the table when it has
# a million rows, so plans with sequential scans are excluded. The tests check generic plans;
# planning for a list of 500 keys took longer.
_PLANNER = {"enable_seqscan": "off", "jit": "off", "plan_cache_mode": "force_generic_plan"}

# A process that stalls in a transaction must not keep its row locks. The first timeout ends a transaction
# that waits for its client. One whose statement is prepared and not executed counts as active; only the
# second timeout (PostgreSQL 17) ends it.
_STALLED = {"idle_in_transaction_session_timeout": "5000", "transaction_timeout": "20000"}

DISK_FULL_FOR_S = 30.0
TRIES = 5

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class DatabaseTimeouts:
    """How long to wait for a server that is stalled before it counts as unavailable."""

    connect_s: float = 10.0
    free_connection_s: float = 10.0
    command_s: float = 30.0


class Database:
    """Connections to Postgres; `acquire` waits for a free one, within bounds."""

    def __init__(
        self,
        url: str,
        *,
        size: int = 10,
        name: str = "beacon-runner",
        timeouts: DatabaseTimeouts | None = None,
    ) -> None:
        self._timeouts = timeouts or DatabaseTimeouts()
        self._idle: list[Connection] = []
        self._waiting = 0  # callers that wait for the pool
        self._closing = False
        self._disk_full = "", 0.0
        self._pool = asyncpg.create_pool(
            url,
            min_size=0,  # a process may start before its database
            max_size=size,
            max_inactive_connection_lifetime=0,  # reconnecting would delay the first request after a pause
            init=_prepare,
            reset=_no_reset,
            timeout=self._timeouts.connect_s,
            command_timeout=self._timeouts.command_s,
            statement_cache_size=256,
            max_cached_statement_lifetime=0,
            server_settings={**_PLANNER, **_STALLED, "application_name": name},
        )

    async def open(self) -> None:
        """Ready to connect; a first connection is opened now if the database is available."""
        await self._pool
        try:
            async with self.acquire():
                pass
        except StoreUnavailableError as error:
            log.warning("database_unavailable_at_start", error=str(error))

    async def close(self) -> None:
        self._closing = True
        while self._idle:
            await self._release(self._idle.pop())
        await self._pool.close()

    def check_disk(self) -> None:
        """Raises for a while after a write failed because the disk is full: reads still succeed then."""
        message, at = self._disk_full
        if message and asyncio.get_running_loop().time() - at < DISK_FULL_FOR_S:
            raise StoreUnavailableError(f"disk full: {message}")

    @asynccontextmanager
    async def acquire(self) -> "AsyncIterator[Connection]":
        """A connection, for the time of an `async with`; translates errors of the driver.

        A healthy connection is kept for the next caller: releasing it to the pool takes two tasks and two
        turns of the event loop, which would delay the response.
        """
        try:
            connection = self._idle.pop() if self._idle else await self._pool_connection()
            if not _is_reusable(connection):
                await self._release(connection)
                connection = await self._pool_connection()
            try:
                yield connection
            except BaseException:
                await self._release(connection)
                raise
            if self._waiting or self._closing or not _is_reusable(connection):
                await self._release(connection)
            else:
                self._idle.append(connection)
        except UNAVAILABLE as error:
            if isinstance(error, asyncpg.exceptions.DiskFullError):
                self._disk_full = str(error), asyncio.get_running_loop().time()
            raise unavailable(error) from error

    async def _pool_connection(self) -> "Connection":
        self._waiting += 1
        try:
            # The pool's own timeout would start a task for every connection taken.
            async with asyncio.timeout(self._timeouts.free_connection_s):
                return await self._pool.acquire()
        finally:
            self._waiting -= 1

    async def _release(self, connection: "Connection") -> None:
        await self._pool.release(connection, timeout=self._timeouts.command_s)

    @asynccontextmanager
    async def transaction(self) -> "AsyncIterator[Connection]":
        async with self.acquire() as connection, connection.transaction():
            yield connection

    async def fetch(self, statement: str, *values: Any) -> list[asyncpg.Record]:
        async with self.acquire() as connection:
            return await connection.fetch(statement, *values)

    async def fetchrow(self, statement: str, *values: Any) -> asyncpg.Record | None:
        async with self.acquire() as connection:
            return await connection.fetchrow(statement, *values)

    async def fetchval(self, statement: str, *values: Any) -> Any:
        async with self.acquire() as connection:
            return await connection.fetchval(statement, *values)

    async def execute(self, statement: str, *values: Any) -> str:
        async with self.acquire() as connection:
            return await connection.execute(statement, *values)


async def retried(transaction: Callable[..., Awaitable[T]], *values: Any) -> T:
    """The result of the first try that met no deadlock. The server has waited already, so this does not."""
    for _ in range(TRIES - 1):
        try:
            return await transaction(*values)
        except CONFLICTS:
            continue
    try:
        return await transaction(*values)
    except CONFLICTS as error:
        raise StoreUnavailableError(f"lost to other transactions {TRIES} times: {error}") from error


def retry_on_conflict(method: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """For a method that is one transaction, or several that can be repeated."""

    @wraps(method)
    async def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        return await retried(partial(method, *args, **kwargs))

    return repeated


def ids(many: Iterable[UUID]) -> str:
    """Ids as a parameter for `$n::text::uuid[]`; without hyphens, which are slower to write and to parse.

    asyncpg checks every element of an array for being a nested array, which took longer than the rest of the
    parameter; Postgres parses the text as fast as the binary form.
    """
    return "{" + ",".join([one.hex for one in many]) + "}"


def _is_reusable(connection: "Connection") -> bool:
    try:
        return not connection.is_closed() and not connection.is_in_transaction()
    except asyncpg.InterfaceError:  # it broke and was released automatically
        return False


async def _prepare(connection: Any) -> None:
    """JSON is encoded by orjson; bytes are JSON already."""
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=_encode, decoder=orjson.loads, format="binary"
    )


async def _no_reset(connection: Any) -> None:
    """Sessions are never changed, so nothing is reset: that would be a second round trip.

    The pool rolls back an open transaction.
    """


def _encode(value: Any) -> bytes:
    return value if isinstance(value, bytes) else orjson.dumps(value)
