"""Services without a task of their own that only have to be closed."""

import asyncio
from collections.abc import Awaitable, Callable


class ClosedAtStop:
    def __init__(self, name: str, close: Callable[[], Awaitable[object]]) -> None:
        self.name = name
        self._close = close
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        """It is open already."""

    async def wait(self) -> None:
        await self._stopped.wait()

    async def stop(self) -> None:
        if not self._stopped.is_set():
            self._stopped.set()
            await self._close()
