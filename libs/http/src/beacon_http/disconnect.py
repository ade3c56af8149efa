"""Ends the work for a request whose client has disconnected."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect
from starlette.types import Scope

from beacon_http.connections import CONNECTION, TrackedConnection


@asynccontextmanager
async def ended_on_disconnect(scope: Scope) -> AsyncGenerator[None]:
    """For a request whose body was read: the block is cancelled and ends with ClientDisconnect."""
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
