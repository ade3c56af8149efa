"""The rate of draining a filled queue of empty jobs."""

from collections.abc import Mapping
from random import Random
from statistics import median
from typing import Any

from benchmarks.harness.entry import Entry
from benchmarks.harness.process import MeasurementError
from benchmarks.harness.rounds import shuffled_rounds
from benchmarks.harness.run import Drained, drain
from benchmarks.harness.servers import SharedServers
from benchmarks.runner.entries import DRAINS
from benchmarks.runner.plan import Plan, Section, setting_text
from benchmarks.runner.sections.limits import BARE, RESULTS, rate

NAME = "drain"
CPU = " CPU µs"
TRIALS = 2


async def measure(servers: SharedServers, plan: Plan) -> Section:
    entries = [*DRAINS, *plan.others()]
    section = Section(NAME)
    best = {entry.name: await _best(servers, plan, entry, section) for entry in entries}
    by_name = {entry.name: entry for entry in entries if best[entry.name] is not None}
    for order in shuffled_rounds([*by_name, RESULTS], plan.rounds, plan.seed):
        values: dict[str, float] = {}
        for name in order:
            if name == RESULTS:
                values[name] = await rate(servers, plan, BARE[RESULTS])
            else:
                values |= await _one(servers, plan, by_name[name], best[name] or {}, section)
        section.rounds.append(values)
        _tell(values)
    return section


async def _one(
    servers: SharedServers, plan: Plan, entry: Entry, variant: Mapping[str, Any], section: Section
) -> dict[str, float]:
    drained = await _try(servers, plan, entry, variant, section)
    if drained is None:
        return {}
    return {entry.name: drained.rate, entry.name + CPU: drained.worker_us + drained.servers_us}


def _tell(values: Mapping[str, float]) -> None:
    shown = (f"{name} {rate:,.0f}" for name, rate in values.items() if CPU not in name)
    print("  " + ", ".join(shown), flush=True)


async def _best(
    servers: SharedServers, plan: Plan, entry: Entry, section: Section
) -> Mapping[str, Any] | None:
    """The variant with the best median of a few short runs, in shuffled order; None when none works."""
    if len(entry.variants) == 1:
        chosen = entry.variants[0]
    else:
        rates: dict[int, list[float]] = {}
        runs = [number for number in range(len(entry.variants)) for _ in range(TRIALS)]
        Random(plan.seed).shuffle(runs)
        failed: set[int] = set()
        for number in runs:
            if number in failed:
                continue
            drained = await _try(servers, plan, entry, entry.variants[number], section)
            if drained is None:
                failed.add(number)
            else:
                rates.setdefault(number, []).append(drained.rate)
        whole = {number: found for number, found in rates.items() if number not in failed}
        if not whole:
            return None
        chosen = entry.variants[max(whole, key=lambda number: median(whole[number]))]
    section.settings[entry.name] = setting_text(chosen)
    return chosen


async def _try(
    servers: SharedServers, plan: Plan, entry: Entry, variant: Mapping[str, Any], section: Section
) -> Drained | None:
    """A peer that fails is left out of the round and named in the report."""
    try:
        return await drain(servers, entry, variant, plan.jobs(entry.jobs))
    except MeasurementError as error:
        section.failures[entry.name] = str(error).splitlines()[0]
        print(f"  {entry.name}: {error}", flush=True)
        return None
