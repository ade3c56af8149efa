"""One measurement: a load on a server, its rate, its latencies, and the CPU that it cost the server."""

import asyncio
import json
import sys
from dataclasses import dataclass

from benchmarks.harness.cpu import cpu_seconds
from benchmarks.harness.statistics import percentile
from benchmarks.router.processes import TOKEN, Server

MOST_WARM_UP = 200


@dataclass(frozen=True, slots=True)
class Load:
    """What to send: the path, the shape of the body, how many, how many at once."""

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
class Generated:
    seconds: float
    latencies: list[float]


async def measure(server: Server, load: Load) -> Measured:
    await _generate(server, load, min(MOST_WARM_UP, load.requests // 4))
    before = cpu_seconds(server.pid)
    result = await _generate(server, load, load.requests)
    used = cpu_seconds(server.pid) - before
    latencies = [latency * 1000 for latency in result.latencies]
    return Measured(
        rate=load.requests / result.seconds,
        per_core=load.requests / used if used else 0.0,
        p50_ms=percentile(latencies, 50),
        p99_ms=percentile(latencies, 99),
    )


async def _generate(server: Server, load: Load, count: int) -> Generated:
    arguments = (server.url + load.path, load.shape, str(count), str(load.in_flight), TOKEN)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.router.generator", *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the load on {server.name} failed")
    return Generated(**json.loads(output))
