"""Faults: a process dies or freezes, and is restored."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from tests.chaos.system import LEASE_S, ROUTERS, SLOT_LEASE_S, System

Fault = Callable[[System], Awaitable[None]]


def kill(*names: str) -> Fault:
    async def fault(system: System) -> None:
        for name in names:
            await system.kill(name)
        for name in sorted(names, key=_needs_others):
            await system.start(name)

    fault.__name__ = f"kill_{'_and_'.join(names)}"
    return fault


def _needs_others(name: str) -> bool:
    """A process is ready only when its servers are."""
    return name not in ("postgres", "redis")


def frozen_for(name: str, seconds: float) -> Fault:
    """The duration of the fault itself, not a wait for a condition."""

    async def fault(system: System) -> None:
        system.freeze(name)
        try:
            await asyncio.sleep(seconds)
        finally:
            system.thaw(name)

    fault.__name__ = f"freeze_{name}"
    return fault


async def router_without_redis(system: System) -> None:
    """For longer than its lease, so that the other router takes over its share of the limits."""
    await system.cut_redis()
    try:
        await asyncio.sleep(SLOT_LEASE_S * 2)
    finally:
        await system.restore_redis()


async def flush_redis(system: System) -> None:
    async with system.redis() as redis:
        await redis.flushall()


async def restart_redis(system: System) -> None:
    await system.processes["redis"].stop()
    await system.start("redis")


async def restart_postgres(system: System) -> None:
    await system.processes["postgres"].stop()
    await system.start("postgres")


SCENARIOS: dict[str, Fault] = {
    "worker killed": kill("worker-1"),
    "relay killed": kill("relay"),
    "api killed": kill("api"),
    "one of two routers killed": kill("router"),
    "both routers killed": kill("router", "router-2"),
    "worker and relay killed": kill("worker-2", "relay"),
    "router and worker killed": kill("router", "worker-1"),
    "api and postgres killed": kill("api", "postgres"),
    "redis killed": kill("redis"),
    "redis flushed": flush_redis,
    "redis restarted": restart_redis,
    "redis is frozen": frozen_for("redis", 10.0),
    "postgres restarted": restart_postgres,
    "postgres killed": kill("postgres"),
    "postgres is frozen": frozen_for("postgres", 8.0),
    "worker frozen past its lease": frozen_for("worker-1", LEASE_S * 2),
    "router frozen past its lease": frozen_for("router", SLOT_LEASE_S * 2),
    "router without redis": router_without_redis,
}


def any_two_parts(rng: random.Random) -> Fault:
    return kill(*rng.sample(["api", "relay", "worker-1", "worker-2", *ROUTERS], 2))


async def strike(system: System, faults: list[Fault], rng: random.Random, *, within_s: float) -> None:
    """Faults in sequence at random times."""
    for fault in faults:
        await asyncio.sleep(rng.uniform(0.2, within_s))
        await fault(system)
