"""The delay until a job's body runs on an idle system."""

from benchmarks.harness.entry import Entry
from benchmarks.harness.process import MeasurementError
from benchmarks.harness.rounds import shuffled_rounds
from benchmarks.harness.run import pickup
from benchmarks.harness.servers import SharedServers
from benchmarks.harness.statistics import percentile
from benchmarks.runner.entries import PICKUPS
from benchmarks.runner.plan import Plan, Section

NAME = "pickup"
PERCENTS = (50, 95, 99)


def key(name: str, percent: int) -> str:
    return f"{name} p{percent}"


async def measure(servers: SharedServers, plan: Plan) -> Section:
    entries = {entry.name: entry for entry in (*PICKUPS, *plan.others())}
    section = Section(NAME)
    for order in shuffled_rounds(list(entries), plan.rounds, plan.seed):
        values: dict[str, float] = {}
        for name in order:
            values |= await _one(servers, plan, entries[name], section)
        section.rounds.append(values)
        print("  " + ", ".join(f"{name} {value:.1f} ms" for name, value in values.items()), flush=True)
    return section


async def _one(servers: SharedServers, plan: Plan, entry: Entry, section: Section) -> dict[str, float]:
    """Milliseconds at each percentile."""
    try:
        latencies = await pickup(servers, entry, entry.variants[0], plan.samples(entry.pickups))
    except MeasurementError as error:
        section.failures[entry.name] = str(error).splitlines()[0]
        return {}
    return {key(entry.name, percent): 1000 * percentile(latencies, percent) for percent in PERCENTS}
