"""A running system of a checkout with the tracer: `make up` on free ports, with short GPU runs."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx

TRACER = Path(__file__).parent / "tracer"
READY_WITHIN_S = 120.0
POLL_S = 0.05
# The window in which a job of a few milliseconds is accepted, run and recorded.
WINDOW_S = 0.15


@dataclass(frozen=True, slots=True)
class Trace:
    """What one process called in a window: (file, function) with counts, and the records it made."""

    calls: dict[tuple[str, str], int]
    records: dict[str, int]

    @property
    def functions(self) -> int:
        return len(self.calls)

    @property
    def total(self) -> int:
        return sum(self.calls.values())

    @property
    def files(self) -> int:
        return len({file for file, _ in self.calls})


@dataclass(frozen=True, slots=True)
class TracedSystem:
    home: Path
    credentials: dict[str, str]
    http: httpx.AsyncClient
    pids: dict[str, int]

    async def trace(self, package: str, action: Any) -> Trace:
        """The calls of a process of `package` during `action` and the window after it."""
        target = self.home / "trace" / f"{package}.json"
        target.unlink(missing_ok=True)
        os.kill(self.pids[package], signal.SIGUSR1)
        await asyncio.sleep(0.01)
        await action()
        os.kill(self.pids[package], signal.SIGUSR2)
        while not target.exists():
            await asyncio.sleep(POLL_S)
        found = json.loads(target.read_text(encoding="utf-8"))
        return Trace({(file, name): count for file, name, count in found["calls"]}, found["records"])

    async def log_statements(self) -> None:
        """Let Postgres log every statement from now on."""
        environment = Path(f"/proc/{self.pids['beacon_runner']}/environ").read_bytes().decode()
        url = dict(line.split("=", 1) for line in environment.split("\0") if "=" in line)["DATABASE_URL"]
        connection = await asyncpg.connect(url)
        try:
            await connection.execute("ALTER SYSTEM SET log_min_duration_statement = 0")
            await connection.execute("SELECT pg_reload_conf()")
        finally:
            await connection.close()
        await asyncio.sleep(1.0)

    def statement_log(self) -> str:
        return (self.home / "stack" / "logs" / "postgres.log").read_text(encoding="utf-8", errors="replace")


@asynccontextmanager
async def traced_system(tree: Path, home: Path) -> AsyncIterator[TracedSystem]:
    home.mkdir(parents=True, exist_ok=True)
    (home / "trace").mkdir(exist_ok=True)
    config = home / "beacon.toml"
    config.write_text(
        _short_runs((tree / "config/beacon.toml").read_text(encoding="utf-8")), encoding="utf-8"
    )
    sources = [str(tree / "services"), str(tree / "libs")]
    environment = {
        **{name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}},
        "BEACON_HOME": str(home / "stack"),
        "BEACON_CONFIG": str(config),
        "BEACON_RUNNER_PORT": "0",
        "BEACON_ROUTER_PORT": "0",
        "BEACON_TRACE_DIR": str(home / "trace"),
        "BEACON_TRACE_SOURCES": os.pathsep.join(sources),
        "PYTHONPATH": str(TRACER),
    }
    with (home / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [str(tree / ".venv/bin/python"), "-m", "beacon_devstack", "up"],
            cwd=tree,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        credentials = await _ready(process, home)
        async with httpx.AsyncClient(timeout=30, trust_env=False) as http:
            yield TracedSystem(home, credentials, http, _pids(process.pid))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _short_runs(config: str) -> str:
    """The demo topology with GPU runs of a millisecond."""
    return re.sub(r"(expected_(?:load|run)_s) = [\d.]+", r"\1 = 0.001", config)


async def _ready(process: "subprocess.Popen[bytes]", home: Path) -> dict[str, str]:
    file = home / "stack" / "credentials.json"
    async with asyncio.timeout(READY_WITHIN_S), httpx.AsyncClient(trust_env=False) as http:
        while True:
            if process.poll() is not None:
                raise RuntimeError((home / "up.log").read_text(encoding="utf-8"))
            if file.exists():
                credentials: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
                try:
                    answer = await http.get(f"{credentials['runner_url']}/readyz")
                    if answer.status_code == 200:
                        return credentials
                except httpx.TransportError:
                    pass
            await asyncio.sleep(POLL_S)


def _pids(root: int) -> dict[str, int]:
    """The processes of the runner and the router among the children of `root`."""
    found: dict[str, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == root:
            found |= {name: int(folder.name) for name in ("beacon_runner", "beacon_router") if name in words}
    return found
