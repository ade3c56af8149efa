"""How long Redis emptied, or a worker killed, is felt."""

import asyncio

from benchmarks.harness.entry import Entry
from benchmarks.harness.process import ContenderError, running
from benchmarks.harness.servers import Arena
from benchmarks.harness.trial import READY_S
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


async def measure(arena: Arena, plan: Plan) -> Section:
    section = Section(NAME)
    live = plan.jobs(LIVE)
    section.settings = {FLUSHED: f"{live:,} live jobs"}
    for _ in range(min(FLUSHES, plan.rounds)):
        section.rounds.append({FLUSHED: await _flush(arena, live)})
    for number in range(plan.rounds):
        section.rounds.append(await _kill(arena, plan, plan.seed + number, section))
    return section


async def _flush(arena: Arena, live: int) -> float:
    entry = of_beacon("recovery")
    async with (
        arena.place(entry.name, migrated=True) as place,
        running(
            entry.program({}), database_url=place.database_url, redis_url=place.redis_url, log=place.log
        ) as contender,
    ):
        await contender.ask("prepare", within_s=READY_S)
        await contender.ask("fill", within_s=LONG_S, count=live)
        seconds: float = await contender.ask("flushed", within_s=LONG_S, count=live)
        account = await contender.ask("account", within_s=LONG_S, count=live)
    if set(account.values()) != {live}:
        raise ContenderError(f"after Redis was emptied under {live} jobs: {account}")
    return seconds


async def _kill(arena: Arena, plan: Plan, seed: int, section: Section) -> dict[str, float]:
    """All at once: they mostly wait, and so all of them meet the same moment."""
    entries = {BEACON: of_beacon("recovery")}
    entries |= {peer.name: peer for peer in plan.others() if peer.name == "pgqueuer"}
    found = await asyncio.gather(
        *(_recover(arena, entry, seed, number) for number, entry in enumerate(entries.values())),
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


async def _recover(arena: Arena, entry: Entry, seed: int, number: int) -> float:
    async with (
        arena.place(entry.name, migrated=entry.migrated, redis_database=number) as place,
        running(
            entry.program(entry.variants[0]),
            database_url=place.database_url,
            redis_url=place.redis_url,
            log=place.log,
        ) as contender,
    ):
        await contender.ask("prepare", within_s=READY_S)
        seconds: float = await contender.ask("recover", within_s=READY_S + 120, seed=seed)
    return seconds
