"""Writes the table of throughput and CPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.machine import facts_line
from benchmarks.harness.process import ROOT
from benchmarks.harness.statistics import Spread
from benchmarks.harness.table import DASH, TIMES, markdown_table, spread

FILE = ROOT / "benchmarks" / "results" / "end_to_end.md"
BEACON, BEFORE, PGQUEUER, CELERY = (
    "Beacon",
    "Beacon, baseline checkout",
    "pgqueuer + LiteLLM Router class",
    "Celery + LiteLLM proxy",
)
GOALS = {BEFORE: 2, PGQUEUER: 7, CELERY: 12}
HEADER = (
    "system",
    "jobs/s",
    "CPU per job, µs",
    "Beacon's jobs/s against it",
    "goal",
    "Beacon's CPU against it",
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Jobs a second, and the CPU microseconds of all processes but the backend for one job."""

    rate: float
    cpu_us: float


def write_report(
    rounds: Sequence[Mapping[str, Measured]], how: str, facts: Mapping[str, str], file: Path = FILE
) -> Path:
    introduction = Path(__file__).with_name("introduction.md").read_text(encoding="utf-8").strip()
    names = [name for name in (BEACON, *GOALS) if name in rounds[0]]
    rows = [_row(name, rounds) for name in names]
    measured = f"Measured in {how}; {facts_line(facts)}. To repeat it: `make bench NAME=end_to_end`."
    file.write_text(
        "\n\n".join([introduction, markdown_table(HEADER, rows), measured]) + "\n", encoding="utf-8"
    )
    return file


def _row(name: str, rounds: Sequence[Mapping[str, Measured]]) -> tuple[str, ...]:
    rates = Spread.of([one[name].rate for one in rounds])
    cpu = Spread.of([one[name].cpu_us for one in rounds])
    if name == BEACON:
        return (name, spread(rates), spread(cpu), DASH, DASH, DASH)
    faster = Spread.of([one[BEACON].rate / one[name].rate for one in rounds])
    cheaper = Spread.of([one[BEACON].cpu_us / one[name].cpu_us for one in rounds])
    return (
        name,
        spread(rates),
        spread(cpu),
        spread(faster) + TIMES,
        f"≥ {GOALS[name]}{TIMES}",
        spread(cheaper) + TIMES,
    )
