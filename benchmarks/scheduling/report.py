"""Writes what was found as a page of tables and a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.harness.statistics import Spread, ratio, values_of
from benchmarks.harness.table import DASH, TIMES, markdown_table, number, spread
from benchmarks.scheduling.cores import Costs
from benchmarks.scheduling.figures import Figures, Foretold
from benchmarks.scheduling.findings import BEACON, Found
from benchmarks.scheduling.goals import goals_table, smallest
from benchmarks.scheduling.knowable import KNOWN, Knowable
from benchmarks.scheduling.picture import waits_picture
from benchmarks.scheduling.workload import TIERS

RESULTS = Path(__file__).resolve().parents[1] / "results"


def write_report(
    found: Sequence[Found], costs: Mapping[str, Costs], measured: str, folder: Path = RESULTS
) -> list[Path]:
    folder.mkdir(exist_ok=True)
    page, drawing = folder / "scheduling.md", folder / "scheduling.svg"
    page.write_text(text(found, costs, measured), encoding="utf-8")
    drawing.write_text(waits_picture(found), encoding="utf-8")
    return [page, drawing]


def text(found: Sequence[Found], costs: Mapping[str, Costs], measured: str) -> str:
    parts = [
        "# Which inference runs next: Beacon's policy against simpler ones",
        _prose("introduction"),
        "## Goals",
        goals_table(found, costs),
        "![p95 wait per tier and policy](scheduling.svg)",
        "## Policies",
        policies_table(found),
        "## Promises to those who wait longest",
        promises_table(found),
        "## Waits foretold",
        foretold_table(found),
        "## What a decision costs",
        costs_table(costs),
        _prose("reading"),
        measured,
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def policies_table(found: Sequence[Found]) -> str:
    header = (
        "arrivals, policy",
        *(f"{tier} p50 / p95 / p99" for tier in TIERS),
        "makespan, s",
        "GPUs busy",
        "switches",
        "lost to loads, GPU s",
        "Jain",
    )
    rows = [
        _policy_row(f"{scenario.name}, {name}", figures)
        for scenario in found
        for name, figures in scenario.policies.items()
    ]
    return markdown_table(header, rows)


def _policy_row(label: str, figures: Figures) -> list[str]:
    return [
        label,
        *(_waits(figures, tier) for tier in TIERS),
        number(figures.makespan_s),
        f"{figures.busy:.0%}",
        f"{figures.switches:,}",
        number(figures.lost_s),
        f"{figures.fairness:.2f}",
    ]


def _waits(figures: Figures, tier: str) -> str:
    waits = figures.waits.get(tier)
    if waits is None:
        return DASH
    return " / ".join(number(seconds) for seconds in (waits.p50, waits.p95, waits.p99))


def promises_table(found: Sequence[Found]) -> str:
    """Cells: the worst wait in seconds, then dispatches seen past the bound, of those allowed."""
    rows = [
        [
            scenario.name,
            *(
                f"{number(scenario.policies[BEACON].waits[tier].worst)} s; "
                f"{scenario.seen.get(tier, 0)} of {scenario.allowed[tier]}"
                if tier in scenario.policies[BEACON].waits
                else DASH
                for tier in TIERS
            ),
        ]
        for scenario in found
    ]
    return markdown_table(("arrivals", *TIERS), rows)


def foretold_table(found: Sequence[Found]) -> str:
    """Cells of what could be known: the median error, then the largest share of waits that can be near."""
    header = (
        "arrivals",
        "waits",
        "under p90",
        "error, of the mean wait",
        "error, of each wait",
        "of the sample",
        "sizes told: under p90",
        "of the mean wait",
        "of each wait",
        *(f"by one who knows {known}" for known in KNOWN),
    )
    rows = [
        [
            scenario.name,
            f"{scenario.foretold.count:,}",
            f"{scenario.foretold.covered:.0%}",
            f"{scenario.foretold.of_the_mean_wait:.0%}",
            f"{scenario.foretold.of_each_wait:.0%}",
            DASH if scenario.sample is None else f"{scenario.sample.of_each_wait:.0%}",
            *_with_sizes(scenario.told.foretold),
            *(_known(scenario.knowable.get(known)) for known in KNOWN),
        ]
        for scenario in found
        if scenario.foretold is not None
    ]
    return markdown_table(header, rows)


def _with_sizes(eta: Foretold | None) -> list[str]:
    if eta is None:
        return [DASH] * 3
    return [f"{share:.0%}" for share in (eta.covered, eta.of_the_mean_wait, eta.of_each_wait)]


def _known(by_one: Knowable | None) -> str:
    return DASH if by_one is None else f"{by_one.error:.0%}; {by_one.near:.0%}"


def costs_table(costs: Mapping[str, Costs]) -> str:
    rows = [
        [
            f"{core}, {int(size):,} waiting, {kind}",
            spread(Spread.of(values_of(rounds, size))),
            spread(ratio(rounds, size, smallest(rounds))) + TIMES,
        ]
        for core, of_core in costs.items()
        for kind, rounds in of_core.decisions.items()
        for size in sorted(rounds[0], key=int)
    ]
    return markdown_table(("", "CPU per decision, µs", "of the smallest's"), rows)


def _prose(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8").strip()
