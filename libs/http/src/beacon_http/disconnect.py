"""Ends the work for a request whose client has disconnected."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect
from starlette.types import Receive


@asynccontextmanager
async def ended_on_disconnect(receive: Receive) -> AsyncGenerator[None]:
    """For a request whose body was read: the block is cancelled and ends with ClientDisconnect."""
    scope = asyncio.timeout(None)
    watcher = asyncio.ensure_future(_end(scope, receive))
    try:
        async with scope:
            yield
    except TimeoutError:
        if scope.expired():
            raise ClientDisconnect from None
        raise
    finally:
        watcher.cancel()


async def _end(scope: asyncio.Timeout, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.reschedule(0.0)
