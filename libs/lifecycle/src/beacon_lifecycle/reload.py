"""A service that reloads after SIGHUP, for example the configuration."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

from beacon_lifecycle.tasks import TaskSet


class ReloadOnSignal:
    """A service that awaits `reload` after each SIGHUP, one at a time.

    A signal between its construction and its start is handled at its start: services that start before it
    may have reported that the process is ready.
    """

    name = "reload"

    def __init__(self, reload: Callable[[], Awaitable[None]]) -> None:
        self._reload = reload
        self._signalled = asyncio.Event()
        self._tasks = TaskSet(self.name)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._signalled.set)

    async def start(self) -> None:
        self._tasks.spawn("reload", self._reload_when_signalled())

    async def wait(self) -> None:
        await self._tasks.failed.wait()
        raise RuntimeError(f"{self.name} ended") from self._tasks.failure

    async def stop(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        await self._tasks.close()

    async def _reload_when_signalled(self) -> None:
        while True:
            await self._signalled.wait()
            self._signalled.clear()
            await self._reload()
