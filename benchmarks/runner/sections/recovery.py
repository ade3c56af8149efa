"""The time to recover from an emptied Redis and from a killed worker."""

import asyncio

from benchmarks.harness.entry import Entry
from benchmarks.harness.process import MeasurementError, running
from benchmarks.harness.run import READY_S
from benchmarks.harness.servers import SharedServers
from benchmarks.runner.entries import BEACON, of_beacon
from benchmarks.runner.plan import Plan, Section

NAME = "recovery"
FLUSHED = "Redis emptied"
KILLED = "worker killed"
LIVE = 100_000
FLUSHES = 3
LONG_S = 600.0


def killed(name: str) -> str:
    return f"{name}, {KILLED}"


async def measure(servers: SharedServers, plan: Plan) -> Section:
    section = Section(NAME)
    live = plan.jobs(LIVE)
    section.settings = {FLUSHED: f"{live:,} live jobs"}
    for _ in range(min(FLUSHES, plan.rounds)):
        section.rounds.append({FLUSHED: await _flush(servers, live)})
    for number in range(plan.rounds):
        section.rounds.append(await _kill(servers, plan, plan.seed + number, section))
    return section


async def _flush(servers: SharedServers, live: int) -> float:
    entry = of_beacon("recovery")
    async with (
        servers.target(entry.name, migrated=True) as target,
        running(
            entry.program({}),
            database_url=target.database_url,
            redis_url=target.redis_url,
            log=target.log,
        ) as system,
    ):
        await system.ask("prepare", within_s=READY_S)
        await system.ask("fill", within_s=LONG_S, count=live)
        seconds: float = await system.ask("flushed", within_s=LONG_S, count=live)
        account = await system.ask("account", within_s=LONG_S, count=live)
    if set(account.values()) != {live}:
        raise MeasurementError(f"after Redis was emptied under {live} jobs: {account}")
    return seconds


async def _kill(servers: SharedServers, plan: Plan, seed: int, section: Section) -> dict[str, float]:
    """All systems concurrently, because they mostly wait."""
    entries = {BEACON: of_beacon("recovery")}
    entries |= {peer.name: peer for peer in plan.others() if peer.name == "pgqueuer"}
    found = await asyncio.gather(
        *(_recover(servers, entry, seed, number) for number, entry in enumerate(entries.values())),
        return_exceptions=True,
    )
    values: dict[str, float] = {}
    for name, seconds in zip(entries, found, strict=True):
        if isinstance(seconds, BaseException):
            section.failures[killed(name)] = str(seconds).splitlines()[0]
        else:
            values[killed(name)] = seconds
    print("  " + ", ".join(f"{name} {value:.1f} s" for name, value in values.items()), flush=True)
    return values


async def _recover(servers: SharedServers, entry: Entry, seed: int, number: int) -> float:
    async with (
        servers.target(entry.name, migrated=entry.migrated, redis_database=number) as target,
        running(
            entry.program(entry.variants[0]),
            database_url=target.database_url,
            redis_url=target.redis_url,
            log=target.log,
        ) as system,
    ):
        await system.ask("prepare", within_s=READY_S)
        seconds: float = await system.ask("recover", within_s=READY_S + 120, seed=seed)
    return seconds
