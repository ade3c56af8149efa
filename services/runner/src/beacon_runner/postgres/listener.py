"""Subscribes to notifications of Postgres on a connection of its own. Best effort: its users also poll."""

import asyncio
from collections.abc import Callable

import asyncpg
import structlog

from beacon_lifecycle import TaskSet

log = structlog.get_logger(__name__)

RECONNECT_S = 1.0
CONNECT_TIMEOUT_S = 10.0


class PostgresListener:
    """A service: calls `on_notify` after a notification on `channel`, and after each connection."""

    def __init__(self, url: str, channel: str, on_notify: Callable[[], None]) -> None:
        self.name = f"postgres-listener-{channel}"
        self._url = url
        self._channel = channel
        self._on_notify = on_notify
        self._tasks = TaskSet(self.name)

    async def start(self) -> None:
        self._tasks.spawn("listen", self._listen())

    async def wait(self) -> None:
        await self._tasks.failed.wait()
        raise RuntimeError(f"{self.name} ended") from self._tasks.failure

    async def stop(self) -> None:
        await self._tasks.close()

    async def _listen(self) -> None:
        while True:
            try:
                await self._follow_connection()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
                log.info("postgres_listen_failed", channel=self._channel, error=str(error))
            await asyncio.sleep(RECONNECT_S)

    async def _follow_connection(self) -> None:
        lost = asyncio.Event()
        connection = await asyncpg.connect(
            self._url, timeout=CONNECT_TIMEOUT_S, server_settings={"application_name": "beacon-listener"}
        )
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(self._channel, lambda *_: self._on_notify())
            self._on_notify()  # what was missed without a connection
            await lost.wait()
        finally:
            connection.terminate()
