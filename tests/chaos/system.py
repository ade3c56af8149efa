"""The whole system with two routers and one process per role, so that each can be killed alone."""

import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx
from redis.asyncio import Redis

from beacon_devstack.home import Home
from beacon_devstack.ports import choose_port
from beacon_devstack.processes.process import ProcessSpec, ServiceProcess
from beacon_devstack.servers.embedded_server import EmbeddedServer
from beacon_devstack.settings import StackSettings
from beacon_devstack.stack import Stack
from beacon_files import open_store
from beacon_lifecycle import ManualClock, SystemClock
from beacon_runner.maintenance.file_cleanup import ORPHAN_AGE, FileCleanup
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.files import PostgresFiles
from tests.fixtures.gpusim import read_ledger_file
from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.stack import ANY_FREE, NOT_FOR_A_STACK, changed_config
from tests.fixtures.tcp_proxy import TcpProxy
from tests.fixtures.webhook_receiver import WebhookReceiver, webhook_receiver

ROLES = {"api": "api", "relay": "relay", "worker-1": "worker", "worker-2": "worker"}
ROUTERS = ("router", "router-2")
LEASE_S = 4.0
SLOT_LEASE_S = 3.0
RESUMED_S = 1.0  # how long after it resumes a frozen router may take to abort its runs
CAP = 5  # of the group that the routers share: fewer than the slots of its backends

# Leases and pauses short enough for a test; nothing that changes what is promised.
SHORT_DELAYS = {
    "lease_s = 10\nheartbeat_s = 2.5": f"lease_s = {LEASE_S}\nheartbeat_s = 1",
    "job_retry_delays_s = [60, 120, 180]": "job_retry_delays_s = [1, 1, 1]",
    "slot_lease_s = 10": f"slot_lease_s = {SLOT_LEASE_S}",
    "[groups.modal]\ncap = 10": f"[groups.modal]\ncap = {CAP}",
    "[models.flux]\nexpected_load_s = 2.0\nexpected_run_s = 1.5\nexclusive = true": (
        "[models.flux]\nexpected_load_s = 0.3\nexpected_run_s = 0.2"
    ),
}


class System:
    def __init__(self, stack: Stack, ledger: Path, receiver: WebhookReceiver) -> None:
        self._stack = stack
        self.receiver = receiver
        self._ledger = ledger
        self.processes: dict[str, ServiceProcess | EmbeddedServer] = {
            **stack.processes,
            **{server.name: server for server in stack.servers.embedded},
        }
        self.admin_key = stack.credentials.admin_key
        self.files = stack.home.path / "files"
        self.killed: list[str] = []
        self.frozen_s: list[tuple[float, float]] = []
        """When a frozen router may have exceeded a cap: from the end of its lease until it has resumed. Kept,
        because the ledger is that of all loads."""
        self._frozen_at: dict[str, float] = {}
        self._disturbed = 0
        self._proxy: TcpProxy | None = None

    @property
    def api_url(self) -> str:
        return self.url("api")

    def url(self, name: str) -> str:
        process = self.processes[name]
        assert isinstance(process, ServiceProcess)
        return process.url

    async def spread(self) -> None:
        """A second router, and one process per role instead of the runner with all roles."""
        runner, router = self._stack.processes.pop("runner"), self._stack.processes["router"]
        del self.processes["runner"]
        await runner.stop()
        redis = urlsplit(self._stack.servers.redis_url)
        assert redis.port is not None
        self._proxy = TcpProxy(redis.port)
        await self._proxy.restore()
        proxied = {"REDIS_URL": redis.geturl().replace(f":{redis.port}", f":{self._proxy.port}")}
        own = {**proxied, "BEACON_ROUTER_STATE_FILE": str(self._stack.home.path / "router-2-config.json")}
        second = await self._add("router-2", "beacon_router", router, "BEACON_ROUTER_PORT", **own)
        urls = {"BEACON_ROUTER_URLS": f"{router.url},{second.url}"}
        for name, role in ROLES.items():
            await self._add(name, "beacon_runner", runner, "BEACON_RUNNER_PORT", role, **urls)

    async def _add(
        self, name: str, module: str, like: ServiceProcess, port_setting: str, *role: str, **more: str
    ) -> ServiceProcess:
        """Another process with the same environment and its own port."""
        port = choose_port(0, component=name, setting="")
        environment = {**like.child.spec.environment, port_setting: str(port), **more}
        spec = ProcessSpec(name, module, environment, role, f"http://127.0.0.1:{port}")
        process = ServiceProcess(spec, self._stack.home, clock=SystemClock())
        self.processes[name] = process
        await process.start()
        return process

    async def allow_gpu_calls(self, gpu: str, slots: int) -> None:
        """How many calls a simulated GPU runs at a time."""
        async with httpx.AsyncClient(trust_env=False, verify=NO_TLS) as http:
            answer = await http.put(f"{self.url(gpu)}/control/slots", json={"slots": slots})
            answer.raise_for_status()

    async def stop_added(self) -> None:
        for name in (*reversed(ROLES), "router-2"):
            if name in self.processes:
                await self.processes[name].stop()
        if self._proxy is not None:
            await self._proxy.cut()

    @property
    def repetitions(self) -> int:
        """How often a run may have been repeated because its router was killed, frozen or cut off."""
        return sum(name in ROUTERS for name in self.killed) + self._disturbed

    async def kill(self, name: str) -> None:
        self.killed.append(name)
        await self.processes[name].kill()

    async def start(self, name: str) -> None:
        await self.processes[name].start()

    def freeze(self, name: str) -> None:
        """With all its children, because backends of Postgres are processes."""
        self._frozen_at[name] = time.monotonic()
        self._signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        since = self._frozen_at.pop(name)
        if name in ROUTERS:
            self._disturbed += 1
            # It was renewed at most a third of a lease before it was frozen.
            self.frozen_s.append((since + SLOT_LEASE_S / 2, time.monotonic() + RESUMED_S))
        self._signal(name, signal.SIGCONT)

    async def cut_redis(self) -> None:
        """The second router loses Redis, and only that."""
        assert self._proxy is not None
        self._disturbed += 1
        await self._proxy.cut()

    async def restore_redis(self) -> None:
        assert self._proxy is not None
        await self._proxy.restore()

    def _signal(self, name: str, number: signal.Signals) -> None:
        for pid in _family(self.processes[name].child.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def redis(self) -> Redis:
        return Redis.from_url(self._stack.servers.redis_url, decode_responses=True)

    def begin(self) -> None:
        """Earlier events are not accounted for again."""
        self.killed.clear()
        self._disturbed = 0

    async def rows(self, query: str, *values: Any) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self._stack.servers.database_url)
        try:
            return list(await connection.fetch(query, *values))
        finally:
            await connection.close()

    async def remove_orphans(self) -> None:
        """As the relay does a day later."""
        database = Database(self._stack.servers.database_url, size=1)
        await database.open()
        try:
            later = ManualClock(datetime.now(UTC) + 2 * ORPHAN_AGE)
            store = open_store(str(self.files))
            await FileCleanup(PostgresFiles(database), store, later, orphans_every_s=-1).run_once()
        finally:
            await database.close()

    def gpu_calls(self) -> list[dict[str, Any]]:
        return read_ledger_file(self._ledger)


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = children.read_text(encoding="ascii").split() if children.exists() else []
    return [pid, *(one for child in found for one in _family(int(child)))]


@asynccontextmanager
async def running_system(home: Path) -> AsyncIterator[System]:
    config, ledger = changed_config(home, SHORT_DELAYS), home / "gpu-ledger.jsonl"
    kept = {name: value for name, value in os.environ.items() if name not in NOT_FOR_A_STACK}
    settings = StackSettings.from_environment(
        {**kept, **ANY_FREE, "BEACON_CONFIG": str(config), "GPUSIM_LEDGER_FILE": str(ledger)}
    )
    async with webhook_receiver() as receiver, Stack(Home.at(home), settings) as stack:
        system = System(stack, ledger, receiver)
        try:
            await system.spread()
            yield system
        finally:
            await system.stop_added()
