"""Resources that are opened and closed with the process, as services of the supervisor."""

import asyncio
from collections.abc import Awaitable, Callable


class Resource:
    """Opened before the services that use it and closed after them."""

    def __init__(
        self,
        name: str,
        *,
        open_it: Callable[[], Awaitable[object]] | None = None,
        close_it: Callable[[], Awaitable[object]],
    ) -> None:
        self.name = name
        self._open = open_it
        self._close = close_it
        self._closed = False

    async def start(self) -> None:
        if self._open is not None:
            await self._open()

    async def wait(self) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None:
        if not self._closed:
            self._closed = True
            await self._close()
