"""From a command to the runner: which address, which key, one event loop per command."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

from beacon_client.credentials import find_credentials
from beacon_client.runner import RunnerClient

Result = TypeVar("Result")

_as_admin: ContextVar[bool] = ContextVar("beacon_as_admin", default=False)


def choose_admin(value: bool) -> bool:
    """Remember for the rest of the command to use the administrator's key."""
    _as_admin.set(value)
    return value


def ask(work: Callable[[RunnerClient], Coroutine[Any, Any, Result]], *, admin: bool = False) -> Result:
    """Do the work with a client of the runner that is open while it lasts."""
    found = find_credentials(os.environ)
    key = found.admin_key if admin or _as_admin.get() else found.user_key

    async def run() -> Result:
        async with RunnerClient(found.runner_url, key) as client:
            return await work(client)

    return asyncio.run(run())
