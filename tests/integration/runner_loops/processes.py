"""Router, relay and workers as processes of their own, so that a test can kill or freeze them."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.fixtures.gpusim import Gpusim, start_gpusim
from tests.fixtures.module_process import ModuleProcess
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until

CONFIG = Path(__file__).parents[3] / "config" / "beacon.toml"
SHORT_LEASES = ("lease_s = 10\nheartbeat_s = 2.5", "lease_s = 2\nheartbeat_s = 0.5")


@dataclass
class Process:
    name: str
    log_file: Path
    started: ModuleProcess

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def send(self, number: signal.Signals) -> None:
        self.started.send(number)

    def must_be_alive(self) -> None:
        if self.started.exit_code is not None:
            raise RuntimeError(f"{self.name} ended with {self.started.exit_code}:\n{self.log}")

    async def logs(self, *words: str) -> None:
        """One of these."""

        def logged() -> bool:
            self.must_be_alive()
            return any(word in self.log for word in words)

        await until(logged, f"{self.name} logs one of {words!r}")

    async def exited(self) -> int:
        return await asyncio.to_thread(self.started.wait, WAIT_TIMEOUT_S)

    def end(self) -> None:
        """Leave no process behind."""
        self.started.kill()


@dataclass
class ProcessHarness:
    """The servers, files and simulated GPU of the processes of one test."""

    folder: Path
    environment: dict[str, str]
    gpu: Gpusim
    has_revision: bool = False
    processes: list[Process] = field(default_factory=list)

    def start(self, name: str, *arguments: str, **environment: str) -> Process:
        log_file = self.folder / f"{name}.log"
        whole = {**os.environ, **self.environment, **environment}
        started = ModuleProcess(*arguments, environment=whole, log_file=log_file)
        process = Process(name, log_file, started)
        self.processes.append(process)
        return process

    def change_config(self, old: str, new: str) -> None:
        """Before the first process of the runner, which stores the file as the first revision."""
        assert not self.has_revision
        config = self.folder / "beacon.toml"
        text = config.read_text(encoding="utf-8")
        assert old in text
        config.write_text(text.replace(old, new), encoding="utf-8")

    def end(self) -> None:
        for process in self.processes:
            process.end()

    async def worker(self, name: str) -> Process:
        """A worker that has started to claim."""
        return await self._runner(name, "worker")

    async def relay(self, name: str) -> Process:
        return await self._runner(name, "relay")

    async def router(self, name: str = "router", port: int = 0) -> str:
        """Its address."""
        ready = self.folder / f"{name}.url"
        started = {"BEACON_ROUTER_PORT": str(port), "BEACON_ROUTER_READY_FILE": str(ready)}
        return await self._serves(self.start(name, "beacon_router", **started), ready)

    async def _runner(self, name: str, role: str) -> Process:
        ready = self.folder / f"{name}.url"
        started = {"BEACON_RUNNER_PORT": "0", "BEACON_RUNNER_READY_FILE": str(ready)}
        self.has_revision = True
        process = self.start(name, "beacon_runner", role, **started)
        await self._serves(process, ready)
        return process

    async def _serves(self, process: Process, ready: Path) -> str:
        def address() -> str:
            process.must_be_alive()
            return _content(ready)

        return await until(address, f"{process.name} serves")


def _content(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""


@asynccontextmanager
async def process_harness(database_url: str, redis_url: str, folder: Path) -> AsyncIterator[ProcessHarness]:
    """A running GPU and router; the test starts relays and workers."""
    shutil.copy(CONFIG, folder / "beacon.toml")
    async with AsyncExitStack() as running:
        gpu = await running.enter_async_context(
            start_gpusim(region="US", slots=4, default_load=0, default_run=0)
        )
        environment = {
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
            "BEACON_CONFIG": str(folder / "beacon.toml"),
            "BEACON_SERVICE_TOKEN": "a-token-for-tests",
            "BEACON_BACKEND_US_1_URL": f"{gpu.url}/modal",
            "BEACON_LOG_FORMAT": "json",
            "BEACON_FILES_URL": str(folder / "files"),
        }
        made = ProcessHarness(folder, environment, gpu)
        made.change_config(*SHORT_LEASES)
        running.callback(made.end)
        environment["BEACON_ROUTER_URLS"] = await made.router()
        yield made
