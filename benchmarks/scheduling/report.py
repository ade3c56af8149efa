"""Writes the measurements as a page of tables and a chart."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from beacon_router.scheduling import Policy
from beacon_router.scheduling.starvation_bounds import dispatches_until_served
from benchmarks.harness.statistics import Round, Spread, ratio, values_of
from benchmarks.harness.table import DASH, TIMES, markdown_table, number, spread
from benchmarks.scheduling.chart import waits_chart
from benchmarks.scheduling.cost import Costs
from benchmarks.scheduling.figures import EtaAccuracy, Figures
from benchmarks.scheduling.flood import FloodFigures
from benchmarks.scheduling.measurements import BEACON, FIFO, STRICT, LoadFigures
from benchmarks.scheduling.seeds import SeedFigures
from benchmarks.scheduling.workload import TIERS

RESULTS = Path(__file__).resolve().parents[1] / "results"
_NEGLIGIBLE_S = 0.1
_SEEDS_PROSE = """Median, least and greatest value of the seeds. *With the fewest loads*: a GPU changes its
model only when no request for it waits, whatever waits for other models; a bound that a policy for all users
cannot reach."""


def write_report(
    found: Sequence[LoadFigures],
    flood: Mapping[str, FloodFigures],
    costs: Costs,
    *,
    seeds: Mapping[str, SeedFigures],
    measured: str,
    folder: Path = RESULTS,
) -> list[Path]:
    folder.mkdir(exist_ok=True)
    page, chart = folder / "scheduling.md", folder / "scheduling.svg"
    page.write_text(_page(found, flood, costs, seeds=seeds, measured=measured), encoding="utf-8")
    chart.write_text(waits_chart([each for each in found if each.eta is not None]), encoding="utf-8")
    return [page, chart]


def _page(
    found: Sequence[LoadFigures],
    flood: Mapping[str, FloodFigures],
    costs: Costs,
    *,
    seeds: Mapping[str, SeedFigures],
    measured: str,
) -> str:
    prose = Path(__file__).with_name("introduction.md").read_text(encoding="utf-8")
    parts = [
        "# Scheduling policy compared with simpler ones",
        prose,
        measured,
        "## Loads, waits and warm waiting",
        _loads_table(found),
        "![p95 wait per tier and policy](scheduling.svg)",
        "## Other seeds, and the fewest loads",
        _SEEDS_PROSE,
        _seeds_table(seeds),
        "## One user floods a tier",
        _flood_table(flood),
        "## Estimates, starvation bound, violations",
        _promises_table([each for each in found if each.eta is not None]),
        "## Cost of a decision",
        _costs_table(costs),
        "## All policies",
        _policies_table(found),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _loads_table(found: Sequence[LoadFigures]) -> str:
    header = (
        "arrivals, load",
        "lost to loads, of FIFO's",
        "p95 of the two top tiers, of strict priority's",
        "mean s until the run begins",
        "of the best `warm_wait_max_loads`",
        'loads, of `fairness = "fifo"`',
    )
    goal = ("goal", "at most 0.30; 0.40 with FIFO at 90%", "at most 2 at 90 and 110%", "", "at most 1.05")
    return markdown_table(header, [(*goal, "at most 1.05"), *(_load_row(each) for each in found)])


def _load_row(each: LoadFigures) -> list[str]:
    ours, strict = each.policies[BEACON], each.policies[STRICT]
    best = min(each.by_max_loads, key=lambda loads: each.by_max_loads[loads])
    return [
        f"{each.scenario}, {each.load}",
        f"{ours.lost_s / each.policies[FIFO].lost_s:.2f}",
        f"{number(ours.top_p95)} s: {_times(ours.top_p95, strict.top_p95)}",
        number(ours.start_s),
        f"{ours.start_s / each.by_max_loads[best]:.2f} ({best:g})",
        DASH if each.fifo_loads is None else f"{ours.loads / each.fifo_loads:.2f}",
    ]


def _times(ours_s: float, other_s: float) -> str:
    return DASH if other_s < _NEGLIGIBLE_S else f"{ours_s / other_s:.1f}{TIMES}"


def _seeds_table(seeds: Mapping[str, SeedFigures]) -> str:
    header = (
        "arrivals, load",
        "lost to loads, of FIFO's",
        "the same with the fewest loads",
        "its mean time until the run begins, of Beacon's",
        "p95 of the two top tiers, of strict priority's",
    )
    goal = ("goal", "at most 0.30; 0.40 with FIFO at 90%", "", "", "at most 2 at 90 and 110%")
    rows = [
        (name, *map(_median_and_range, (each.lost, each.least_lost, each.least_start, each.top_p95)))
        for name, each in seeds.items()
    ]
    return markdown_table(header, [goal, *rows])


def _median_and_range(values: Sequence[float]) -> str:
    if not values:
        return DASH
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _flood_table(flood: Mapping[str, FloodFigures]) -> str:
    *_, ideal = flood.values()
    rows = [
        [
            name,
            f"{each.jain:.3f}",
            str(each.dispatches_before_small),
            number(each.small_wait_s),
            f"{each.small_wait_s / ideal.small_wait_s:.2f}",
            str(each.loads),
        ]
        for name, each in flood.items()
    ]
    header = (
        "policy",
        "Jain's index",
        "dispatches before the first small user's",
        "mean wait of the small users, s",
        "of the ideal server's",
        "loads",
    )
    return markdown_table(header, [("goal", "at least 0.95", "at most 3", "", "at most 2", ""), *rows])


def _promises_table(found: Sequence[LoadFigures]) -> str:
    """Cells of a tier: the worst wait, then the dispatches past the bound of those allowed."""
    header = (
        "arrivals, load",
        *TIERS,
        "under p90",
        "error of the mean wait",
        "with sizes: under p90",
        "error of the mean wait",
        "FIFO violations",
    )
    goal = ("goal", *["within"] * len(TIERS), "85 to 95 %", "at most 15 %", "85 to 95 %", "at most 15 %", "0")
    return markdown_table(header, [goal, *(_promises_row(each) for each in found)])


def _promises_row(each: LoadFigures) -> list[str]:
    ours, dispatches = each.policies[BEACON], each.dispatches or {}
    allowed = {tier: dispatches_until_served(Policy(), rank) for rank, tier in enumerate(TIERS)}
    return [
        f"{each.scenario}, {each.load}",
        *(
            f"{number(ours.worst[tier])} s; {dispatches.get(tier, 0)} of {allowed[tier]}"
            if tier in ours.worst
            else DASH
            for tier in TIERS
        ),
        *_eta(each.eta),
        *_eta(each.eta_with_sizes),
        str(ours.fifo_violations),
    ]


def _eta(eta: EtaAccuracy | None) -> list[str]:
    return [DASH] * 2 if eta is None else [f"{eta.under_p90:.0%}", f"{eta.of_the_mean_wait:.0%}"]


def _costs_table(costs: Costs) -> str:
    rows = [
        [
            f"{int(size):,} waiting, {kind}",
            spread(Spread.of(values_of(rounds, size))),
            spread(ratio(rounds, size, _smallest(rounds))) + TIMES,
        ]
        for kind, rounds in costs.decisions.items()
        for size in sorted(rounds[0], key=int)
    ]
    goal = ["goal", "at most 40", "flat"]
    table = markdown_table(("", "CPU per decision, µs", "of the smallest's"), [goal, *rows])
    return f"{table}\n\nMemory per waiting request: {number(costs.bytes_each)} bytes (at most 1,024)."


def _smallest(rounds: Sequence[Round]) -> str:
    return min(rounds[0], key=int)


def _policies_table(found: Sequence[LoadFigures]) -> str:
    header = (
        "arrivals, load, policy",
        *(f"{tier} p95, s" for tier in TIERS),
        "s until the run begins",
        "GPUs busy",
        "loads",
        "lost to loads, GPU s",
    )
    rows = [
        _policy_row(f"{each.scenario}, {each.load}, {name}", figures)
        for each in found
        for name, figures in each.policies.items()
    ]
    return markdown_table(header, rows)


def _policy_row(label: str, figures: Figures) -> list[str]:
    return [
        label,
        *(number(figures.p95[tier]) if tier in figures.p95 else DASH for tier in TIERS),
        number(figures.start_s),
        f"{figures.busy:.0%}",
        f"{figures.loads:,}",
        number(figures.lost_s),
    ]
