"""`python -m benchmarks.files`: measure, and write benchmarks/results/files.md."""

import argparse
import asyncio
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from benchmarks.files.backend import FIRST_BYTES
from benchmarks.files.report import COPY, FIRST, KINDS, Measured, Round, write_report
from benchmarks.harness.memory import memory_of, restart_peak
from benchmarks.router.processes import TOKEN, Server, free_port, serving

SIZE = 40_000_000
TOGETHER = 50
BACKEND = """\
[backends.{kind}]
dialect = "modal"
url = "{url}/{kind}"
models = ["{kind}"]
slots = 100
"""


@dataclass(frozen=True, slots=True)
class System:
    router: Server
    backend: Server
    folder: Path


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.files", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=SIZE)
    chosen, _ = parser.parse_known_args(arguments)
    rounds = asyncio.run(_measure_all(chosen.rounds, chosen.size))
    print(f"wrote {write_report(rounds, chosen.size)}")
    return 0


async def _measure_all(rounds: int, size: int) -> list[Round]:
    measured = []
    for number in range(1, rounds + 1):
        with tempfile.TemporaryDirectory(prefix="beacon-bench-") as folder:
            async with _running(Path(folder), size) as system:
                measured.append(await _measure_round(system, number, size))
    return measured


@asynccontextmanager
async def _running(folder: Path, size: int) -> AsyncIterator[System]:
    backend_port, router_port = free_port(), free_port()
    command = [sys.executable, "-m", "benchmarks.files.backend", str(backend_port), str(size)]
    config = folder / "beacon.toml"
    url = f"http://127.0.0.1:{backend_port}"
    backends = "".join(BACKEND.format(kind=kind, url=url) for kind in (FIRST, *KINDS))
    config.write_text(backends, encoding="utf-8")
    env = {
        "BEACON_CONFIG": str(config),
        "BEACON_ROUTER_PORT": str(router_port),
        "BEACON_SERVICE_TOKEN": TOKEN,
        "BEACON_LOG_LEVEL": "warning",
        "BEACON_FILES_URL": str(folder / "files"),
    }
    router = [sys.executable, "-m", "beacon_router"]
    async with (
        serving("backend", command, port=backend_port, env={}, log=folder / "backend.log") as backend,
        serving("router", router, port=router_port, env=env, log=folder / "router.log") as running,
    ):
        yield System(running, backend, folder)


async def _measure_round(system: System, number: int, size: int) -> Round:
    """With a router of its own, whose memory after its first small file is the base of all transfers."""
    first = await _measure(system, FIRST, 1, memory_of(system.router.pid, "VmRSS"), FIRST_BYTES)
    idle = memory_of(system.router.pid, "VmRSS")
    measured: Round = {FIRST: {1: first}, COPY: {1: Measured(await asyncio.to_thread(_copy, system))}}
    for count in (1, TOGETHER):
        for kind in KINDS:
            found = await _measure(system, kind, count, idle, size)
            measured.setdefault(kind, {})[count] = found
            mib = (found.memory or 0) / 2**20
            rate = size * count / found.seconds / 1e6
            print(f"round {number}: {count} x {kind}: {rate:.0f} MB/s, {mib:.2f} MiB each", flush=True)
    return measured


def _copy(system: System) -> float:
    """Seconds from the backend into a file of the same disk, with nothing in between."""
    address = urlsplit(system.backend.url)
    target = system.folder / "copy"
    buffer = memoryview(bytearray(262_144))
    started = time.perf_counter()
    with (
        socket.create_connection((address.hostname or "", address.port or 0)) as connection,
        target.open("wb") as file,
    ):
        connection.sendall(b"POST /binary HTTP/1.1\r\nconnection: close\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        while received := connection.recv_into(buffer):
            file.write(buffer[:received])
    seconds = time.perf_counter() - started
    target.unlink()
    return seconds


async def _measure(system: System, kind: str, count: int, idle: int, size: int) -> Measured:
    """This many inferences at once; the highest memory of the router above that when idle, for each."""
    pid = system.router.pid
    restart_peak(pid)
    timeout = aiohttp.ClientTimeout(total=600)
    connector = aiohttp.TCPConnector(limit=0)
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(timeout=timeout, connector=connector, headers=headers) as session:
        started = time.perf_counter()
        calls = [_infer(session, system.router.url, kind, f"{kind}-{count}-{i}", size) for i in range(count)]
        objects = await asyncio.gather(*calls)
        seconds = time.perf_counter() - started
    peak = memory_of(pid, "VmHWM")
    for location in objects:
        (system.folder / "files" / location).unlink()
    return Measured(seconds, max(0, peak - idle) / count)


async def _infer(session: aiohttp.ClientSession, url: str, model: str, request_id: str, size: int) -> str:
    """The object with the bytes."""
    body = {"request_id": request_id, "model": model, "region": "LOCAL", "input": {"prompt": "x"}}
    async with session.post(f"{url}/inference", json=body) as response:
        answer = await response.json()
    files = answer.get("files") or []
    if response.status != 200 or len(files) != 1 or files[0]["bytes"] != size:
        raise RuntimeError(f"{request_id}: {response.status} {answer}")
    location: str = files[0]["object"]
    return location


if __name__ == "__main__":
    sys.exit(main())
