"""A checkout of Beacon as users run it: `beacon up`, here on given servers and a given backend."""

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import httpx

from benchmarks.harness.servers import RunTarget

READY_WITHIN_S, WORK_WITHIN_S, POLL_S = 120.0, 120.0, 0.02
BATCH, BATCHES_IN_FLIGHT = 100, 4
MODEL, REGION = "llama3.2-1b", "US"
BACKEND_SLOTS = 256
_BACKENDS = ("US_1", "US_STEPS", "EU_1", "ASIA_1")


@dataclass(frozen=True, slots=True)
class BeaconSystem:
    pid: int
    runner_url: str
    admin_key: str
    database_url: str

    async def run_jobs(self, count: int) -> float:
        """Submit that many generations in batches; seconds until the last result is recorded."""
        job = {"kind": "generation", "model": MODEL, "region": REGION, "prompt": "Why is the sky blue?"}
        headers = {"authorization": f"Bearer {self.admin_key}"}
        batches = iter(range(0, count, BATCH))
        database = await asyncpg.connect(self.database_url)
        finished = "SELECT count(*) FROM jobs WHERE finished_at IS NOT NULL"
        before = await database.fetchval(finished)
        async with httpx.AsyncClient(base_url=self.runner_url, headers=headers, timeout=60.0) as http:

            async def submit() -> None:
                for start in batches:
                    body = {"jobs": [job] * min(BATCH, count - start)}
                    (await http.post("/api/v1/jobs/batch", json=body)).raise_for_status()

            started = time.monotonic()
            await asyncio.gather(*(submit() for _ in range(BATCHES_IN_FLIGHT)))
        async with asyncio.timeout(WORK_WITHIN_S):
            while await database.fetchval(finished) < before + count:
                await asyncio.sleep(POLL_S)
        seconds = time.monotonic() - started
        failed = await database.fetchval("SELECT count(*) FROM jobs WHERE state <> 'completed'")
        await database.close()
        if failed:
            raise RuntimeError(f"{failed} jobs did not complete")
        return seconds


@asynccontextmanager
async def beacon_system(checkout: Path, target: RunTarget, backend_url: str) -> AsyncIterator[BeaconSystem]:
    home = target.log.with_suffix(".home")
    home.mkdir(parents=True)
    config = home / "beacon.toml"
    shipped = (checkout / "config" / "beacon.toml").read_text(encoding="utf-8")
    config.write_text(_fast_backends(shipped), encoding="utf-8")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("BEACON_")},
        **{f"BEACON_BACKEND_{name}_URL": f"{backend_url}/modal" for name in _BACKENDS},
        "BEACON_HOME": str(home / "stack"),
        "BEACON_CONFIG": str(config),
        "BEACON_RUNNER_PORT": "0",
        "BEACON_ROUTER_PORT": "0",
        "DATABASE_URL": target.database_url,
        "REDIS_URL": target.redis_url,
    }
    with target.log.open("ab") as log:
        process = subprocess.Popen(
            [str(checkout / ".venv/bin/python"), "-m", "beacon_devstack", "up"],
            cwd=checkout,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        credentials = await _ready(process, home / "stack" / "credentials.json", target.log)
        yield BeaconSystem(
            process.pid, credentials["runner_url"], credentials["admin_key"], target.database_url
        )
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _fast_backends(config: str) -> str:
    """The shipped configuration with backends that are not the limit: many slots, short runs."""
    config = re.sub(r"(?m)^slots = 4$", f"slots = {BACKEND_SLOTS}", config)
    config = re.sub(r"(?m)^cap = \d+$", f"cap = {4 * BACKEND_SLOTS}", config)
    return re.sub(r"(expected_(?:load|run)_s) = [\d.]+", r"\1 = 0.001", config)


async def _ready(process: "subprocess.Popen[bytes]", credentials: Path, log: Path) -> dict[str, str]:
    async with asyncio.timeout(READY_WITHIN_S), httpx.AsyncClient() as http:
        while True:
            if process.poll() is not None:
                raise RuntimeError(log.read_text(encoding="utf-8"))
            if credentials.exists():
                found: dict[str, str] = json.loads(credentials.read_text(encoding="utf-8"))
                try:
                    if (await http.get(f"{found['runner_url']}/readyz")).status_code == 200:
                        return found
                except httpx.TransportError:
                    pass
            await asyncio.sleep(POLL_S)
