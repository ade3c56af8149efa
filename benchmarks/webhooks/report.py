"""Writes the table of latencies."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.harness.machine import facts_line, machine_facts
from benchmarks.harness.process import ROOT
from benchmarks.harness.statistics import Spread, percentile
from benchmarks.harness.table import markdown_table, spread

FILE = ROOT / "benchmarks" / "results" / "webhooks.md"
IDLE, STALLED = "idle", "with a stalled receiver of another user"
GOAL = "≤ 100 ms"
Round = Mapping[str, Sequence[float]]
"""Milliseconds by situation."""


def write_report(rounds: Sequence[Round], how: str, file: Path = FILE) -> Path:
    introduction = Path(__file__).with_name("introduction.md").read_text(encoding="utf-8").strip()
    rows = [
        [
            situation,
            spread(Spread.of([percentile(one[situation], 50) for one in rounds])),
            spread(Spread.of([percentile(one[situation], 99) for one in rounds])),
            GOAL,
        ]
        for situation in (IDLE, STALLED)
    ]
    table = markdown_table(["", "p50 in ms", "p99 in ms", "goal for the p99"], rows)
    end = f"Measured in {how}; {facts_line(machine_facts())}. To repeat it: `make bench NAME=webhooks`."
    file.write_text(f"{introduction}\n\n{table}\n\n{end}\n", encoding="utf-8")
    return file
