"""One measurement: a load on a server, its rate, its latencies, and the CPU that it cost the server."""

import asyncio
import json
import sys
from dataclasses import dataclass

from benchmarks.harness.cpu import cpu_seconds
from benchmarks.router.processes import Server


@dataclass(frozen=True, slots=True)
class Load:
    """Path and kind of body, number of requests, concurrency."""

    path: str
    shape: str
    requests: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class Measured:
    rate: float
    per_core: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class GeneratorResult:
    seconds: float
    p50_ms: float
    p99_ms: float


async def measure(server: Server, load: Load) -> Measured:
    arguments = (server.url + load.path, load.shape, str(load.requests), str(load.in_flight), server.token)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.router.generator", *arguments),
        stdout=asyncio.subprocess.PIPE,
    )
    result, used = await _follow(process, server)
    return Measured(
        rate=load.requests / result.seconds,
        per_core=load.requests / used if used else 0.0,
        p50_ms=result.p50_ms,
        p99_ms=result.p99_ms,
    )


async def _follow(process: asyncio.subprocess.Process, server: Server) -> tuple[GeneratorResult, float]:
    """The generator's result, and the CPU seconds of the server meanwhile."""
    if process.stdout is None:
        raise RuntimeError("a generator without output")
    await process.stdout.readline()
    before = _cpu_seconds(server)
    output = await process.stdout.readline()
    used = _cpu_seconds(server) - before
    if await process.wait():
        raise RuntimeError(f"the load on {server.name} failed")
    return GeneratorResult(**json.loads(output)), used


def _cpu_seconds(server: Server) -> float:
    return sum(map(cpu_seconds, (server.pid, *server.more_pids)))
