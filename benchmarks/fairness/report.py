"""Writes the table of waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.harness.machine import facts_line
from benchmarks.harness.process import ROOT
from benchmarks.harness.statistics import Spread
from benchmarks.harness.table import TIMES, markdown_table, number, spread

FILE = ROOT / "benchmarks" / "results" / "fairness.md"
HEADER = (
    "lanes",
    "jobs served before, median",
    "worst",
    "wait, median, ms",
    "worst, ms",
    "in the empty system, median, ms",
    "ratio of the medians (quartiles)",
)


@dataclass(frozen=True, slots=True)
class Waits:
    """Of the users with one job each, in one round: amid the bulk, and before it in the empty system."""

    jobs: Sequence[float]
    seconds: Sequence[float]
    alone_seconds: Sequence[float]


def write_report(
    found: Mapping[str, Sequence[Waits]], how: str, facts: Mapping[str, str], file: Path = FILE
) -> Path:
    rows = [_row(strategy, rounds) for strategy, rounds in found.items()]
    prose = Path(__file__).with_name("introduction.md").read_text(encoding="utf-8").strip()
    measured = f"Measured in {how}; {facts_line(facts)}. To repeat it: `make bench NAME=fairness`."
    file.write_text("\n\n".join([prose, markdown_table(HEADER, rows), measured]) + "\n", encoding="utf-8")
    return file


def _row(strategy: str, rounds: Sequence[Waits]) -> tuple[str, ...]:
    ratios = Spread.of([median(waits.seconds) / median(waits.alone_seconds) for waits in rounds])
    return (
        f"`{strategy}`",
        number(median(median(waits.jobs) for waits in rounds)),
        number(max(max(waits.jobs) for waits in rounds)),
        number(1000 * median(median(waits.seconds) for waits in rounds)),
        number(1000 * max(max(waits.seconds) for waits in rounds)),
        number(1000 * median(median(waits.alone_seconds) for waits in rounds)),
        spread(ratios) + TIMES,
    )
