"""Connects a command to the runner: address, key, one event loop per command."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from beacon_cli.global_options import wants_admin
from beacon_client.credentials import find_credentials
from beacon_client.runner import RunnerClient
from beacon_contracts.credentials import Credentials

Result = TypeVar("Result")


def api_key(credentials: Credentials, *, admin: bool = False) -> str:
    """The administrator's key with `--admin` or for a command that needs it; otherwise the user's."""
    return credentials.admin_key if admin or wants_admin() else credentials.user_key


def call_runner(
    work: Callable[[RunnerClient], Coroutine[Any, Any, Result]], *, admin: bool = False
) -> Result:
    """Run `work` with an open client of the runner."""
    found = find_credentials(os.environ)
    key = api_key(found, admin=admin)

    async def run() -> Result:
        async with RunnerClient(found.runner_url, key) as client:
            return await work(client)

    return asyncio.run(run())
