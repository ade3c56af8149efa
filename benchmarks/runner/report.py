"""Writes the table and the chart."""

from pathlib import Path

from benchmarks.harness.chart import Bar, bar_chart
from benchmarks.harness.machine import facts_line
from benchmarks.harness.statistics import Spread, values_of
from benchmarks.harness.table import markdown_table
from benchmarks.runner.entries import BEACON
from benchmarks.runner.findings import RESULTS, Findings
from benchmarks.runner.rows import HEADER, rows
from benchmarks.runner.sections import drain, limits

TITLE = "A filled queue worked off: jobs a second, results recorded"


def write_report(findings: Findings, folder: Path = RESULTS) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "runner.md"
    table.write_text(_text(findings), encoding="utf-8")
    drawing = _drawing(findings)
    if drawing is None:
        return [table]
    image = folder / "runner.svg"
    image.write_text(drawing, encoding="utf-8")
    return [table, image]


def _text(findings: Findings) -> str:
    table = markdown_table(HEADER, [row.cells() for row in rows(findings)])
    parts = [_prose("introduction"), table, _prose("reading"), *_failures(findings), _facts(findings)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _prose(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")


def _failures(findings: Findings) -> list[str]:
    said = [
        f"- {name} did not complete at least once: {reason}"
        for section in findings.sections
        for name, reason in findings.said(section, "failures").items()
    ]
    return ["\n".join(["What failed:", "", *said])] if said else []


def _facts(findings: Findings) -> str:
    """Where each section was measured: they may have been measured at different times."""
    lines = ["Measured on:", ""]
    for name, section in findings.sections.items():
        how = f"{len(section['rounds'])} rounds, seed {section['seed']}, scale {section['scale']:g}"
        lines.append(f"- {name}: {how}; {facts_line(section['facts'])}")
    return "\n".join(lines)


def _drawing(findings: Findings) -> str | None:
    rounds = findings.rounds(drain.NAME)
    names = [BEACON, *findings.said(drain.NAME, "peers"), limits.RESULTS]
    bars = [
        Bar(name, Spread.of(values_of(rounds, name)), ours=name == BEACON)
        for name in names
        if values_of(rounds, name)
    ]
    if not bars:
        return None
    bars.sort(key=lambda bar: -bar.value.median)
    subtitle = f"Median and quartiles of {len(rounds)} shuffled rounds; one worker process each"
    return bar_chart(TITLE, subtitle, "jobs/s", bars)
