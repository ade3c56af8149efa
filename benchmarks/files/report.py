"""Writes the goals and a table of all measurements."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.files.backend import FIRST_BYTES
from benchmarks.harness.machine import facts_line, machine_facts
from benchmarks.harness.process import ROOT
from benchmarks.harness.statistics import Spread
from benchmarks.harness.table import TIMES, markdown_table, spread

FILE = ROOT / "benchmarks" / "results" / "files.md"
COPY = "bare copy"
FIRST = "first"
KINDS = ("binary", "base64")


class Measured(NamedTuple):
    seconds: float
    memory: float | None = None
    """Bytes for each transfer."""


Round = dict[str, dict[int, Measured]]
"""By system and the number of transfers at once."""


def write_report(rounds: Sequence[Round], size: int, file: Path = FILE) -> Path:
    introduction = Path(__file__).with_name("introduction.md").read_text(encoding="utf-8").strip()
    parts = [introduction.format(size=size / 1e6), _table(rounds, size)]
    machine = facts_line(machine_facts())
    parts.append(f"Measured in {len(rounds)} rounds; {machine}. To repeat it: `make bench NAME=files`.")
    file.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return file


def _table(rounds: Sequence[Round], size: int) -> str:
    rows = []
    for system in (COPY, *KINDS):
        for count in rounds[0][system]:
            measured = [one[system][count] for one in rounds]
            rate = Spread.of([size * count / one.seconds / 1e6 for one in measured])
            ratio = Spread.of([count * one[COPY][1].seconds / one[system][count].seconds for one in rounds])
            rows.append(
                [
                    system if system == COPY else f"{system}, {count} at once",
                    spread(rate),
                    spread(ratio) + TIMES,
                    spread(_memory(rounds, system, count)) if system != COPY else "",
                ]
            )
    rows.append(["goal", "", f"≥ 0.3{TIMES}", "≤ 4"])
    rows.append(
        [f"first file of a process ({FIRST_BYTES:,} bytes)", "", "", spread(_memory(rounds, FIRST, 1))]
    )
    return markdown_table(["", "MB/s", "against the bare copy", "memory per transfer in MiB"], rows)


def _memory(rounds: Sequence[Round], system: str, count: int) -> Spread:
    return Spread.of([(one[system][count].memory or 0) / 2**20 for one in rounds])
