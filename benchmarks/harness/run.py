"""One measurement of one system: its own process and database, within a timeout."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.cpu import CpuMeter
from benchmarks.harness.entry import Entry
from benchmarks.harness.process import running
from benchmarks.harness.servers import SharedServers

READY_S, FILL_S, WORK_S = 60.0, 180.0, 60.0
DRAIN_S = 30.0  # its jobs take one to two seconds


@dataclass(frozen=True, slots=True)
class Drained:
    """Jobs a second, and the CPU microseconds that one job costs the worker and the two servers."""

    rate: float
    worker_us: float
    servers_us: float


async def drain(servers: SharedServers, entry: Entry, variant: Mapping[str, Any], jobs: int) -> Drained:
    async with (
        servers.target(entry.name, migrated=entry.migrated) as target,
        running(
            entry.program(variant),
            database_url=target.database_url,
            redis_url=target.redis_url,
            log=target.log,
        ) as system,
    ):
        await system.ask("prepare", within_s=READY_S)
        await system.ask("fill", within_s=FILL_S, count=jobs)
        await servers.settle(target)
        meter = CpuMeter({"worker": system.pid, **servers.pids})
        seconds = await system.ask("drain", within_s=DRAIN_S, count=jobs)
        used = meter.used()
        await system.ask("close", within_s=READY_S)
    worker = used.pop("worker")
    return Drained(jobs / seconds, worker / jobs * 1e6, sum(used.values()) / jobs * 1e6)


async def pickup(servers: SharedServers, entry: Entry, variant: Mapping[str, Any], count: int) -> list[float]:
    """Seconds from queueing to body, one for each job."""
    async with (
        servers.target(entry.name, migrated=entry.migrated) as target,
        running(
            entry.program(variant),
            database_url=target.database_url,
            redis_url=target.redis_url,
            log=target.log,
        ) as system,
    ):
        await system.ask("prepare", within_s=READY_S)
        latencies: list[float] = await system.ask("pickup", within_s=WORK_S, count=count)
        await system.ask("close", within_s=READY_S)
    return latencies
