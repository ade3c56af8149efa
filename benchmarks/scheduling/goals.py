"""The goals, and whether they were reached in every scenario."""

from collections.abc import Mapping, Sequence

from benchmarks.harness.statistics import Round, Spread, ratio, values_of
from benchmarks.harness.table import DASH, TIMES, markdown_table, number, spread
from benchmarks.scheduling.cores import Costs
from benchmarks.scheduling.figures import Figures, Foretold
from benchmarks.scheduling.findings import BEACON, FIFO, Found
from benchmarks.scheduling.workload import TIERS

PAID_TOP = TIERS[:2]


def goals_table(found: Sequence[Found], costs: Mapping[str, Costs]) -> str:
    rows = [row for scenario in found for row in _of_scenario(scenario)]
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
    return f"{markdown_table(header, [goal, *rows])}\n\n{_costs_table(costs)}"


def _of_scenario(scenario: Found) -> list[list[str]]:
    """As nothing is told of sizes, and as it is."""
    told = scenario.told
    return [
        _of_run(scenario, scenario.name, scenario.policies[BEACON], scenario.seen, scenario.foretold),
        _of_run(scenario, f"{scenario.name}, sizes told", told.figures, told.seen, told.foretold),
    ]


def _of_run(
    scenario: Found, name: str, ours: Figures, seen: Mapping[str, int], eta: Foretold | None
) -> list[str]:
    fifo = scenario.policies[FIFO]
    top = max(ours.waits[tier].p95 / fifo.waits[tier].p95 for tier in PAID_TOP if tier in ours.waits)
    kept = all(dispatches <= scenario.allowed[tier] for tier, dispatches in seen.items())
    return [
        name,
        f"{ours.lost_s / fifo.lost_s:.3f}",
        f"{top:.3f}",
        "within" if kept else "beyond",
        *_eta(eta),
        f"0 in {scenario.requests:,}",
    ]


def _eta(eta: Foretold | None) -> list[str]:
    if eta is None:
        return [DASH] * 3
    return [f"{share:.0%}" for share in (eta.of_each_wait, eta.of_the_mean_wait, eta.covered)]


def _costs_table(costs: Mapping[str, Costs]) -> str:
    kinds = next(iter(costs.values())).decisions
    header = (
        "core",
        *(f"µs per decision, {kind}" for kind in kinds),
        "of what it is with few, at most",
        "bytes per waiting request",
    )
    goal = ("goal", *["at most 20"] * len(kinds), "flat", "at most 1,024")
    return markdown_table(header, [goal, *(_cost_row(core, of_core) for core, of_core in costs.items())])


def _cost_row(core: str, costs: Costs) -> list[str]:
    """With as many waiting as were tried."""
    kinds = costs.decisions.values()
    most = max(next(iter(kinds))[0], key=int)
    grown = [growth for rounds in kinds if (growth := ratio(rounds, most, smallest(rounds))) is not None]
    return [
        f"{core}, {int(most):,} waiting",
        *(spread(Spread.of(values_of(rounds, most))) for rounds in kinds),
        spread(max(grown, key=lambda growth: growth.median, default=None)) + TIMES,
        number(costs.bytes_each),
    ]


def smallest(rounds: Sequence[Round]) -> str:
    """The size with which the others are compared."""
    return min(rounds[0], key=int)
