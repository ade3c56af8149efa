"""Writes the goals and a table for each load."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.harness.machine import facts_line, machine_facts
from benchmarks.harness.process import ROOT
from benchmarks.harness.statistics import Spread
from benchmarks.harness.table import DASH, TIMES, markdown_table, spread
from benchmarks.router.measuring import Measured

FILE = ROOT / "benchmarks" / "results" / "openai_api.md"
DIRECT, BEACON, PROXY = "backend alone", "Beacon", "LiteLLM proxy"
# The kind of request and the number in flight.
LOADS: Mapping[str, tuple[str, int]] = {
    "streamed, 8 in flight": ("chat_stream", 8),
    "streamed, 64 in flight": ("chat_stream", 64),
    "complete, 64 in flight": ("chat", 64),
}
Round = dict[str, dict[str, Measured]]
"""By load and system."""


def write_report(rounds: Sequence[Round], how: str, file: Path = FILE) -> Path:
    introduction = Path(__file__).with_name("introduction.md").read_text(encoding="utf-8").strip()
    parts = [introduction, "## Goals", _goals(rounds)]
    for load in LOADS:
        parts += [f"## {load.capitalize()}", _table([one[load] for one in rounds])]
    parts.append(
        f"Measured in {how}; {facts_line(machine_facts())}. To repeat it: `make bench NAME=openai_api`."
    )
    file.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return file


def _goals(rounds: Sequence[Round]) -> str:
    """The goals name no concurrency, so each load has its column."""
    goals: dict[str, tuple[str, Callable[[Mapping[str, Measured]], float], str, str]] = {
        "added latency, p50": ("≤ 6 ms", lambda one: one[BEACON].p50_ms - one[DIRECT].p50_ms, " ms", DIRECT),
        "added latency, p99": ("≤ 25 ms", lambda one: one[BEACON].p99_ms - one[DIRECT].p99_ms, " ms", DIRECT),
        "requests per CPU second against LiteLLM's proxy": (
            f"≥ 8{TIMES}",
            lambda one: one[BEACON].per_core / one[PROXY].per_core,
            TIMES,
            PROXY,
        ),
    }
    rows = []
    for name, (goal, figure, unit, other) in goals.items():
        cells = []
        for load in LOADS:
            figures = [figure(one[load]) for one in rounds if other in one[load]]
            cells.append(spread(Spread.of(figures)) + unit if figures else DASH)
        rows.append([name, goal, *cells])
    return markdown_table(["what", "goal", *LOADS], rows)


def _table(rounds: Sequence[Mapping[str, Measured]]) -> str:
    rows = [
        [
            system,
            *(
                spread(Spread.of([getattr(one[system], figure) for one in rounds]))
                for figure in ("p50_ms", "p99_ms", "rate", "per_core")
            ),
        ]
        for system in (DIRECT, BEACON, PROXY)
        if system in rounds[0]
    ]
    return markdown_table(["", "p50 in ms", "p99 in ms", "requests/s", "requests per CPU second"], rows)
