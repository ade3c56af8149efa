"""Exports of a process of role `api`, and its memory meanwhile."""

import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import httpx

from beacon_contracts.ids import JobId, encode_job_id
from benchmarks.harness.memory import memory_of, restart_peak
from benchmarks.harness.servers import RunTarget
from benchmarks.job_lists.database import CONFIG
from benchmarks.router.processes import Server, free_port, serving

FORMATS = ("jsonl", "csv")


class Export(NamedTuple):
    name: str
    lines: int
    bytes: int
    memory: int


@asynccontextmanager
async def api(target: RunTarget, key: str) -> AsyncIterator[Server]:
    port = free_port()
    env = {
        "DATABASE_URL": target.database_url,
        "REDIS_URL": target.redis_url,
        "BEACON_CONFIG": str(CONFIG),
        "BEACON_RUNNER_PORT": str(port),
        "BEACON_SERVICE_TOKEN": secrets.token_hex(16),
        "BEACON_FILES_URL": str(target.log.parent / "files"),
        "BEACON_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "beacon_runner", "api"]
    async with serving("api", command, port=port, env=env, log=target.log) as server:
        yield Server(server.name, server.url, server.pid, key)


async def measure(server: Server, job: JobId, name: str) -> list[Export]:
    return [await _export(server, job, name, form) for form in FORMATS]


async def _export(server: Server, job: JobId, name: str, form: str) -> Export:
    restart_peak(server.pid)
    before, lines, size = memory_of(server.pid, "VmRSS"), 0, 0
    headers = {"authorization": f"Bearer {server.token}"}
    path = f"/api/v1/jobs/{encode_job_id(job)}/results.{form}"
    async with (
        httpx.AsyncClient(base_url=server.url, headers=headers, timeout=600) as client,
        client.stream("GET", path) as response,
    ):
        response.raise_for_status()
        async for chunk in response.aiter_bytes():
            lines += chunk.count(b"\n")
            size += len(chunk)
    return Export(f"{form}, {name}", lines, size, max(0, memory_of(server.pid, "VmHWM") - before))
