"""Writes the tables of pages and exports."""

from collections.abc import Sequence
from pathlib import Path

from beacon_runner.postgres.jobs.job_pages import MAX_EXAMINED, MAX_SORTED
from benchmarks.harness.machine import facts_line, machine_facts
from benchmarks.harness.process import ROOT
from benchmarks.harness.statistics import Spread
from benchmarks.harness.table import markdown_table, spread
from benchmarks.job_lists.export import Export
from benchmarks.job_lists.lists import Page

FILE = ROOT / "benchmarks" / "results" / "job_lists.md"


def write_report(
    jobs: int, pages: Sequence[Page], exports: Sequence[Export], how: str, file: Path = FILE
) -> Path:
    introduction = Path(__file__).with_name("introduction.md").read_text(encoding="utf-8").strip()
    parts = [
        introduction.format(jobs=jobs, examined=MAX_EXAMINED, sorted=MAX_SORTED),
        markdown_table(["filter", "from", "jobs found", "ms", "slowest, ms"], [*map(_page, pages), _GOAL]),
        markdown_table(["export", "lines", "MB", "memory, MB"], [*map(_export, exports), _EXPORT_GOAL]),
        f"Measured in {how}; {facts_line(machine_facts())}. To repeat it: `make bench NAME=job_lists`.",
    ]
    file.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return file


_GOAL = ["goal", "", "", "≤ 20", ""]
_EXPORT_GOAL = ["goal", "", "", "≤ 50"]


def _page(page: Page) -> list[str]:
    slowest = f"{max(page.milliseconds):.1f}"
    found = f"{page.found}{'' if page.whole else ', more to search'}"
    return [page.name, page.start, found, spread(Spread.of(page.milliseconds)), slowest]


def _export(one: Export) -> list[str]:
    return [one.name, f"{one.lines:,}", f"{one.bytes / 1e6:,.1f}", f"{one.memory / 1e6:.1f}"]
