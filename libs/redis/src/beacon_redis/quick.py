"""The client of the `redis` package with a short way for scripts, which are all that is done often.

A call through the package costs two and a half times as much; see docs/decisions/0010.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from redis.asyncio import Redis, SSLConnection
from redis.asyncio.sentinel import SentinelManagedConnection
from redis.exceptions import ConnectionError, TimeoutError  # noqa: A004 - what callers of Redis know

from beacon_redis.ear import Ear
from beacon_redis.line import Line, Word


class QuickRedis(Redis):
    """`evalsha` goes over one connection that everybody shares; all else is as it was.

    A script is tried twice, because the first one after a restart may meet a connection that is gone.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._line: Line | None = None
        self._opening = asyncio.Lock()

    @property
    def is_plain(self) -> bool:
        """Without TLS, which is left to the package."""
        return not issubclass(self.connection_pool.connection_class, SSLConnection)

    async def open_ear(self, channels: Mapping[str, Callable[[str], None]]) -> Ear:
        """A connection of its own that listens to these channels already."""
        ear = Ear(self.connection_pool.connection_kwargs["socket_timeout"], channels)
        await self._connect(ear)
        await self._or_close(ear, ear.listen())
        return ear

    async def execute_command(self, *arguments: Any, **options: Any) -> Any:
        """As ever; uvloop's error of a connection that was closed a moment ago becomes one of Redis."""
        try:
            return await super().execute_command(*arguments, **options)  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise ConnectionError(f"the connection to Redis was closed: {error}") from error

    async def evalsha(self, sha: str, numkeys: int, *keys_and_args: Any) -> Any:
        if not self.is_plain:
            return await super().evalsha(sha, numkeys, *keys_and_args)
        try:
            return await self.evalsha_once(sha, numkeys, *keys_and_args)
        except (ConnectionError, TimeoutError):
            return await self.evalsha_once(sha, numkeys, *keys_and_args)

    async def evalsha_once(self, sha: str, numkeys: int, *keys_and_args: Any) -> Any:
        """For what must not be done twice; only where `is_plain`. After an error it may have been done."""
        words: tuple[Word, ...] = ("EVALSHA", sha, numkeys, *keys_and_args)
        return await (await self._open_line()).call(*words)

    def send_evalsha(self, sha: str, numkeys: int, *keys_and_args: Any) -> "asyncio.Future[Any] | None":
        """The same, written when this returns; None where a connection is to be opened first."""
        if self._line is None or not self._line.is_open:
            return None
        return self._line.send("EVALSHA", sha, numkeys, *keys_and_args)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        if self._line is not None:
            self._line.close()
        await super().aclose(close_connection_pool)

    async def _open_line(self) -> Line:
        if self._line is not None and self._line.is_open:
            return self._line
        async with self._opening:
            if self._line is None or not self._line.is_open:
                line = Line(self.connection_pool.connection_kwargs["socket_timeout"])
                await self._connect(line)
                self._line = line
            return self._line

    async def _connect(self, line: Line) -> None:
        try:
            async with asyncio.timeout(self.connection_pool.connection_kwargs["socket_timeout"]):
                await self._reach(line)
        except (OSError, RuntimeError) as error:  # a timeout; a sentinel's connection that has just closed
            raise ConnectionError(f"Redis cannot be reached: {error!r}") from error
        await self._or_close(line, self._introduce(line))

    async def _introduce(self, line: Line) -> None:
        options = self.connection_pool.connection_kwargs
        if options.get("password"):
            names = [options["username"]] if options.get("username") else []
            await line.call("AUTH", *names, options["password"])
        if options.get("db"):
            await line.call("SELECT", options["db"])
        if options.get("client_name"):
            await line.call("CLIENT", "SETNAME", options["client_name"])

    async def _or_close(self, line: Line, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except BaseException:
            line.close()
            raise

    async def _reach(self, line: Line) -> None:
        pool: Any = self.connection_pool
        loop = asyncio.get_running_loop()
        path = pool.connection_kwargs.get("path")
        if path is not None:
            await loop.create_unix_connection(line.itself, path)
            return
        behind_sentinel = issubclass(pool.connection_class, SentinelManagedConnection)
        options = pool.connection_kwargs
        place = await pool.get_master_address() if behind_sentinel else (options["host"], options["port"])
        await loop.create_connection(line.itself, *place)
