"""One measurement of one contender: its own process, its own database, a bound in time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.cpu import CpuMeter
from benchmarks.harness.entry import Entry
from benchmarks.harness.process import running
from benchmarks.harness.servers import Arena

READY_S, FILL_S, WORK_S = 60.0, 180.0, 60.0
DRAIN_S = 30.0  # it is given what takes it a second or two


@dataclass(frozen=True, slots=True)
class Drained:
    """Jobs a second, and the CPU microseconds that one job costs the worker and the two servers."""

    rate: float
    worker_us: float
    servers_us: float


async def drain(arena: Arena, entry: Entry, variant: Mapping[str, Any], jobs: int) -> Drained:
    async with (
        arena.place(entry.name, migrated=entry.migrated) as place,
        running(
            entry.program(variant), database_url=place.database_url, redis_url=place.redis_url, log=place.log
        ) as contender,
    ):
        await contender.ask("prepare", within_s=READY_S)
        await contender.ask("fill", within_s=FILL_S, count=jobs)
        await arena.settle(place)
        meter = CpuMeter({"worker": contender.pid, **arena.pids})
        seconds = await contender.ask("drain", within_s=DRAIN_S, count=jobs)
        used = meter.used()
        await contender.ask("close", within_s=READY_S)
    worker = used.pop("worker")
    return Drained(jobs / seconds, worker / jobs * 1e6, sum(used.values()) / jobs * 1e6)


async def pickup(arena: Arena, entry: Entry, variant: Mapping[str, Any], count: int) -> list[float]:
    """Seconds from queueing to body, one for each job."""
    async with (
        arena.place(entry.name, migrated=entry.migrated) as place,
        running(
            entry.program(variant), database_url=place.database_url, redis_url=place.redis_url, log=place.log
        ) as contender,
    ):
        await contender.ask("prepare", within_s=READY_S)
        latencies: list[float] = await contender.ask("pickup", within_s=WORK_S, count=count)
        await contender.ask("close", within_s=READY_S)
    return latencies
