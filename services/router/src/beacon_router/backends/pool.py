"""Connections to backends that are kept for the next request: the one used last goes out first."""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from socket import SOCK_STREAM

import aiohappyeyeballs

from beacon_lifecycle import TaskSet
from beacon_router.backends.connection import Connection
from beacon_router.backends.endpoint import Origin
from beacon_router.backends.errors import unreachable
from beacon_router.backends.types import BackendError

_CONNECT_TIMEOUT_S = 10.0
# Shorter than any server's own (uvicorn's is 5 s): a connection is not closed under a request in flight.
_KEEP_ALIVE_S = 3.0
# How long an address gets before the next one of the same name is tried beside it.
_NEXT_ADDRESS_S = 0.25

Told = Callable[[Connection | BackendError], None]


class Pool:
    """A service that opens connections as they are needed. The slots bound how many there are, not it."""

    name = "connections"

    def __init__(
        self, *, keep_alive_s: float = _KEEP_ALIVE_S, connect_timeout_s: float = _CONNECT_TIMEOUT_S
    ) -> None:
        self._keep_alive_s = keep_alive_s
        self._connect_timeout_s = connect_timeout_s
        self._loop = asyncio.get_running_loop()
        self._idle: dict[Origin, list[Connection]] = {}
        self._open: set[Connection] = set()
        self._opening = TaskSet("connections")
        self._sweep: asyncio.TimerHandle | None = None
        self._trust: ssl.SSLContext | None = None

    def __len__(self) -> int:
        """Open connections, idle ones included."""
        return len(self._open)

    def take(self, origin: Origin) -> Connection | None:
        """One that is free now and was not idle for too long."""
        kept = self._idle.get(origin)
        oldest = self._loop.time() - self._keep_alive_s
        while kept:
            connection = kept.pop()
            if connection.usable and connection.idle_since > oldest:
                return connection
            connection.abort()
        return None

    def connect(self, origin: Origin, told: Told) -> asyncio.Task[None]:
        """Open a new one; `told` hears of it, or why not, unless the task is cancelled."""
        return self._opening.spawn(f"{origin.host}:{origin.port}", self._connect(origin, told))

    # A service

    async def start(self) -> None:
        """Connections are opened when they are needed."""

    async def wait(self) -> None:
        await self._opening.failed.wait()
        if self._opening.failure is not None:
            raise self._opening.failure

    async def stop(self) -> None:
        await self._opening.close()
        if self._sweep is not None:
            self._sweep.cancel()
        self._idle.clear()
        for connection in list(self._open):
            connection.abort()

    # Inside

    async def _connect(self, origin: Origin, told: Told) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                found: Connection | BackendError = await self._dial(origin)
        except TimeoutError:
            found = unreachable(TimeoutError(f"no connection within {self._connect_timeout_s:g} s"))
        except OSError as error:
            found = unreachable(error)
        told(found)

    async def _dial(self, origin: Origin) -> Connection:
        addresses = await self._loop.getaddrinfo(origin.host, origin.port, type=SOCK_STREAM)
        socket = await aiohappyeyeballs.start_connection(
            addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, interleave=1
        )
        make = partial(Connection, idle=partial(self._rest, origin), gone=partial(self._forget, origin))
        try:
            _, connection = await self._loop.create_connection(
                make,
                sock=socket,
                ssl=self._context() if origin.secure else None,
                server_hostname=origin.host if origin.secure else None,
            )
        except BaseException:
            socket.close()
            raise
        self._open.add(connection)
        return connection

    def _context(self) -> ssl.SSLContext:
        if self._trust is None:
            self._trust = ssl.create_default_context()
        return self._trust

    def _rest(self, origin: Origin, connection: Connection) -> None:
        connection.idle_since = self._loop.time()
        self._idle.setdefault(origin, []).append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._keep_alive_s, self._close_old)

    def _forget(self, origin: Origin, connection: Connection) -> None:
        self._open.discard(connection)
        kept = self._idle.get(origin, [])
        if connection in kept:
            kept.remove(connection)

    def _close_old(self) -> None:
        """The oldest are at the front; as long as any is left there is a next look."""
        self._sweep = None
        oldest = self._loop.time() - self._keep_alive_s
        for origin, kept in list(self._idle.items()):
            old = [connection for connection in kept if connection.idle_since <= oldest]
            del kept[: len(old)]
            for connection in old:
                connection.abort()
            if not kept:
                del self._idle[origin]
        if self._idle:
            self._sweep = self._loop.call_later(self._keep_alive_s, self._close_old)
