"""Writes how far estimates and actual waits are apart."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.estimates.measurement import Measured
from benchmarks.harness.machine import facts_line
from benchmarks.harness.process import ROOT
from benchmarks.harness.statistics import percentile
from benchmarks.harness.table import DASH, markdown_table, number

FILE = ROOT / "benchmarks" / "results" / "estimates.md"
LONG_S, FACTOR, GOAL = 2.0, 2.0, 0.8
HEADER = (
    "jobs",
    "all",
    "waited over 2 s",
    "mean wait, s",
    "without an estimate",
    "within a factor of 2",
    "estimate ÷ wait, median (p10 to p90)",
)


def write_report(jobs: Sequence[Measured], how: str, facts: Mapping[str, str], file: Path = FILE) -> Path:
    introduction = Path(__file__).with_name("introduction.md").read_text(encoding="utf-8").strip()
    rows = [
        _row("all", jobs),
        _row("without a disturbance after the estimate", [one for one in jobs if not one.disturbed]),
    ]
    rows += [_row(kind, [one for one in jobs if one.kind == kind]) for kind in _kinds(jobs)]
    measured = f"Measured with {how}; {facts_line(facts)}. To repeat it: `make bench NAME=estimates`."
    parts = [introduction, markdown_table(HEADER, rows), _short(jobs), measured]
    file.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return file


def share_within(jobs: Sequence[Measured]) -> float:
    """Of the jobs that waited long and had an estimate, the share that is within the factor."""
    pairs = _pairs(jobs)
    return sum(_within(*pair) for pair in pairs) / len(pairs) if pairs else 1.0


def _row(name: str, jobs: Sequence[Measured]) -> tuple[str, ...]:
    long = [one for one in jobs if one.actual_s > LONG_S]
    pairs = _pairs(jobs)
    if not pairs:
        return (name, f"{len(jobs)}", f"{len(long)}", DASH, DASH, DASH, DASH)
    ratios = [estimated / actual for estimated, actual in pairs]
    middle, low, high = (number(percentile(ratios, percent)) for percent in (50, 10, 90))
    return (
        name,
        f"{len(jobs)}",
        f"{len(long)}",
        number(sum(one.actual_s for one in long) / len(long)),
        f"{len(long) - len(pairs)}",
        f"{100 * share_within(jobs):.0f}%",
        f"{middle} ({low} to {high})",
    )


def _short(jobs: Sequence[Measured]) -> str:
    short = [one for one in jobs if one.actual_s <= LONG_S and one.estimated_s is not None]
    wrong = sum(one.estimated_s is not None and one.estimated_s > FACTOR * LONG_S for one in short)
    jobs_s, estimate_s = f"{LONG_S:g} s", f"{FACTOR * LONG_S:g} s"
    return f"Of {len(short)} jobs that waited up to {jobs_s}, {wrong} had an estimate over {estimate_s}."


def _kinds(jobs: Sequence[Measured]) -> list[str]:
    return sorted({one.kind for one in jobs})


def _pairs(jobs: Sequence[Measured]) -> list[tuple[float, float]]:
    long = (one for one in jobs if one.actual_s > LONG_S)
    return [(one.estimated_s, one.actual_s) for one in long if one.estimated_s is not None]


def _within(estimated_s: float, actual_s: float) -> bool:
    return 1 / FACTOR <= estimated_s / actual_s <= FACTOR
