"""Beacon's API in front of one OpenAI-compatible backend: runner, router and the servers they share."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from beacon_contracts.accounts import Scope
from beacon_contracts.api_keys import new_api_key
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.database import Database
from benchmarks.harness.servers import RunTarget, SharedServers
from benchmarks.router.processes import TOKEN, Server, free_port, serving

CONFIG = Path(__file__).with_name("beacon.toml")
TIER = "user"


@asynccontextmanager
async def openai_api(servers: SharedServers, target: RunTarget, backend: Server) -> AsyncIterator[Server]:
    """The runner with a user's key; the CPU of router, Postgres and Redis counts too."""
    router_port, runner_port = free_port(), free_port()
    shared = {
        "BEACON_CONFIG": str(CONFIG),
        "BEACON_BACKEND_GPU_URL": f"{backend.url}/v1",
        "BEACON_SERVICE_TOKEN": TOKEN,
        "BEACON_LOG_LEVEL": "warning",
        "REDIS_URL": target.redis_url,
    }
    router = serving(
        "router",
        [sys.executable, "-m", "beacon_router"],
        port=router_port,
        env=shared | {"BEACON_ROUTER_PORT": str(router_port)},
        log=target.log.with_suffix(".router.log"),
    )
    runner = serving(
        "runner",
        [sys.executable, "-m", "beacon_runner", "api"],
        port=runner_port,
        env=shared
        | {
            "BEACON_RUNNER_PORT": str(runner_port),
            "BEACON_ROUTER_URLS": f"http://127.0.0.1:{router_port}",
            "BEACON_FILES_URL": str(target.log.with_suffix(".files")),
            "DATABASE_URL": target.database_url,
        },
        log=target.log.with_suffix(".runner.log"),
    )
    async with router as routing, runner as serving_api:
        more_pids = (routing.pid, *servers.pids.values())
        yield replace(serving_api, token=await _new_key(target.database_url), more_pids=more_pids)


async def _new_key(database_url: str) -> str:
    database, key = Database(database_url, size=1), new_api_key()
    await database.open()
    try:
        users = PostgresUsers(database)
        user, _ = await users.ensure("bench", TIER)
        await users.add_key(user.id, key, [Scope.USER], name="bench")
    finally:
        await database.close()
    return key
