"""The server processes of a measurement."""

import asyncio
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

# LiteLLM starts only with a key of this form.
TOKEN = f"sk-{secrets.token_hex(32)}"
READY_S = 180.0


@dataclass(frozen=True, slots=True)
class Server:
    """`token`: what its clients send. `more_pids`: other processes whose CPU counts."""

    name: str
    url: str
    pid: int
    token: str = TOKEN
    more_pids: tuple[int, ...] = ()


@asynccontextmanager
async def serving(
    name: str, command: Sequence[str], *, port: int, env: Mapping[str, str], log: Path
) -> AsyncIterator[Server]:
    """A server on this port, stopped at the end of the block."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, env=_environment(env), stdout=output, stderr=output, start_new_session=True
        )
    try:
        await _until_listening(port, process, log)
        yield Server(name, f"http://127.0.0.1:{port}", process.pid)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _until_listening(port: int, process: asyncio.subprocess.Process, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            if process.returncode is not None or time.monotonic() > deadline:
                raise RuntimeError(f"did not start:\n{_log_tail(log)}") from error
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


def _log_tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    dropped = ("PYTHONDONTWRITEBYTECODE", "REDIS_URL", "DATABASE_URL")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BEACON_", "GPUSIM_")) and name not in dropped
    }
    return kept | dict(more)


CONFIG = """\
[regions.US]
[regions.EU]
[groups.modal]
cap = 1000
[backends.us-1]
region = "US"
dialect = "modal"
url = "{us}/modal"
models = ["m"]
slots = {slots}
group = "modal"
[backends.eu-1]
region = "EU"
dialect = "modal"
url = "{eu}/modal"
models = ["m"]
slots = 1000
group = "modal"
[models.m]
expected_load_s = 0
expected_run_s = 0.05
[pools.all]
slots = 1
classes = ["high", "medium", "low"]
[[skip_prices]]
price = 1
[router]
fairness = "{fairness}"
"""
_TIERS = (
    ("admin", "high", 30, 16),
    ("creator", "high", 45, 8),
    ("premium", "medium", 60, 4),
    ("supporter", "medium", 90, 2),
    ("free", "low", 120, 1),
)


class Environment:
    """Starts the measured servers on free ports, with logs in a temporary folder."""

    def __init__(self, folder: Path, running: AsyncExitStack) -> None:
        self._folder = folder
        self._running = running

    async def gpu(self, name: str, run_s: float) -> Server:
        port = free_port()
        env = {
            "GPUSIM_PORT": str(port),
            "GPUSIM_SLOTS": "1000",
            "GPUSIM_DEFAULT_LOAD": "0",
            "GPUSIM_DEFAULT_RUN": str(run_s),
            "GPUSIM_REGION": "US",
            "GPUSIM_LEDGER_SIZE": "1000",
        }
        return await self._start(name, [sys.executable, "-m", "beacon_gpusim"], port, env)

    async def backend(self, name: str, run_s: float) -> Server:
        """A backend with negligible cost of its own."""
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.router.backend", str(port), str(run_s)]
        return await self._start(name, command, port, {})

    async def router(
        self, name: str, us: Server, eu: Server | None = None, *, slots: int = 1000, fairness: str = "fair"
    ) -> Server:
        """One router over two regions, which share a GPU if the second has none."""
        port = free_port()
        tiers = "".join(
            f'[tiers.{tier}]\nclass = "{job_class}"\n'
            f"starvation_bound_s = {bound}\nstarvation_weight = {weight}\n"
            for tier, job_class, bound, weight in _TIERS
        )
        config = self._folder / f"{name}.toml"
        settings = CONFIG.format(us=us.url, eu=(eu or us).url, slots=slots, fairness=fairness)
        config.write_text(settings + tiers, encoding="utf-8")
        env = {
            "BEACON_CONFIG": str(config),
            "BEACON_ROUTER_PORT": str(port),
            "BEACON_SERVICE_TOKEN": TOKEN,
        }
        return await self._start(name, [sys.executable, "-m", "beacon_router"], port, env)

    async def echo(self) -> Server:
        port = free_port()
        return await self._start(
            "echo", [sys.executable, "-m", "benchmarks.router.echo", str(port)], port, {}
        )

    async def litellm_proxy(self, name: str, python: Path, gpu: Server) -> Server:
        port = free_port()
        config = self._folder / f"{name}.yaml"
        config.write_text(LITELLM.format(gpu=gpu.url), encoding="utf-8")
        command = [str(python.with_name("litellm")), "--config", str(config), "--port", str(port)]
        return await self._start(name, command, port, {"LITELLM_LOG": "ERROR", "LITELLM_MASTER_KEY": TOKEN})

    async def _start(self, name: str, command: Sequence[str], port: int, env: Mapping[str, str]) -> Server:
        log = self._folder / f"{name.replace(' ', '-')}.log"
        return await self._running.enter_async_context(serving(name, command, port=port, env=env, log=log))


LITELLM = """\
model_list:
  - model_name: m
    litellm_params:
      model: openai/m
      api_base: {gpu}/v1
      api_key: none
"""


@asynccontextmanager
async def environment() -> AsyncIterator[Environment]:
    async with AsyncExitStack() as running:
        folder = running.enter_context(tempfile.TemporaryDirectory(prefix="beacon-bench-"))
        yield Environment(Path(folder), running)
