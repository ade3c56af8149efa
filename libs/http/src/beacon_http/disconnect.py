"""Ends the work for a request whose client disconnects after its body was read."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect
from starlette.types import Scope

from beacon_http.connections import CONNECTION, TrackedConnection


async def wait_while_connected(scope: Scope, future: asyncio.Future[None]) -> None:
    """Await the future; raises ClientDisconnect and cancels it if the client disconnects first."""
    connection: TrackedConnection | None = scope.get(CONNECTION)
    if connection is None or connection.lost:
        future.cancel()
        raise ClientDisconnect
    connection.on_lost = future.cancel
    try:
        await future
    except asyncio.CancelledError:
        if connection.lost:
            raise ClientDisconnect from None
        raise
    finally:
        future.cancel()
        connection.on_lost = None


@asynccontextmanager
async def ended_on_disconnect(scope: Scope) -> AsyncGenerator[None]:
    """Cancels the block when the client disconnects; it then raises ClientDisconnect."""
    connection: TrackedConnection | None = scope.get(CONNECTION)
    if connection is None or connection.lost:
        raise ClientDisconnect
    timeout = asyncio.timeout(None)
    try:
        async with timeout:
            connection.on_lost = lambda: timeout.reschedule(0.0)
            yield
    except TimeoutError:
        if timeout.expired():
            raise ClientDisconnect from None
        raise
    finally:
        connection.on_lost = None
