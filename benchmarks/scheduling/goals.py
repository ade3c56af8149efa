"""The goals, and whether they were reached in every scenario."""

from collections.abc import Sequence

from benchmarks.harness.statistics import Round, Spread, ratio, values_of
from benchmarks.harness.table import DASH, TIMES, markdown_table, number, spread
from benchmarks.scheduling.cost import Costs
from benchmarks.scheduling.figures import Foretold
from benchmarks.scheduling.findings import BEACON, FIFO, Found
from benchmarks.scheduling.workload import TIERS

PAID_TOP = TIERS[:2]


def goals_table(found: Sequence[Found], costs: Costs, bytes_each: float) -> str:
    rows = [_of_scenario(scenario) for scenario in found]
    header = (
        "arrivals",
        "lost to loads, of FIFO's",
        "p95 of the two top tiers, of FIFO's",
        "dispatches past the bound",
        "ETA error, of each wait",
        "of the mean wait",
        "under p90",
        "rules broken",
    )
    goal = ("goal", "at most 0.333", "at most 0.333", "as documented", "at most 20 %", "", "85 to 95 %", "0")
    decided = [_cost_line(kind, costs.measured[kind], steady) for kind, steady in costs.steady.items()]
    memory = f"- bytes per waiting request: {number(bytes_each)}; goal: at most 1,024"
    return "\n\n".join([markdown_table(header, [goal, *rows]), "\n".join([*decided, memory])])


def smallest(rounds: Sequence[Round]) -> str:
    """The size with which the others are compared."""
    return min(rounds[0], key=int)


def _of_scenario(scenario: Found) -> list[str]:
    ours, fifo = scenario.policies[BEACON], scenario.policies[FIFO]
    top = max(ours.waits[tier].p95 / fifo.waits[tier].p95 for tier in PAID_TOP if tier in ours.waits)
    kept = all(seen <= scenario.allowed[tier] for tier, seen in scenario.seen.items())
    return [
        scenario.name,
        f"{ours.lost_s / fifo.lost_s:.3f}",
        f"{top:.3f}",
        "within" if kept else "beyond",
        *_eta(scenario.foretold),
        f"0 in {scenario.requests:,}",
    ]


def _eta(eta: Foretold | None) -> list[str]:
    if eta is None:
        return [DASH] * 3
    return [f"{share:.0%}" for share in (eta.of_each_wait, eta.of_the_mean_wait, eta.covered)]


def _cost_line(kind: str, measured: Sequence[Round], steady: Sequence[Round]) -> str:
    least, largest = smallest(steady), max(steady[0], key=int)
    most, raw = (spread(Spread.of(values_of(rounds, largest))) for rounds in (steady, measured))
    flat = spread(ratio(steady, largest, least))
    return (
        f"- CPU per decision with {int(largest):,} waiting, {kind}: {most} µs at the machine's best speed "
        f"({raw} as measured), goal: at most 20; that is {flat}{TIMES} of what it is with {least}"
    )
