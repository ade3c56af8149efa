"""Tables, numbers, charts and the report."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.harness.chart import Bar, bar_chart
from benchmarks.harness.statistics import Spread
from benchmarks.harness.table import DASH, markdown_table, number, spread
from benchmarks.runner.findings import Findings
from benchmarks.runner.goals import at_least, at_most
from benchmarks.runner.plan import Plan, Section
from benchmarks.runner.report import write_report

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345.6, "12,300"),
        (1999.0, "2,000"),
        (512.4, "512"),
        (34.56, "34.6"),
        (2.345, "2.35"),
        (0.0123, "0.0123"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_a_spread_shows_the_median_and_the_quartiles() -> None:
    assert spread(Spread(2.0, 1.5, 2.5, 7)) == "2.00 (1.50 to 2.50)"
    assert spread(None) == DASH


def test_a_table_has_a_line_for_each_row() -> None:
    table = markdown_table(("what", "figure"), [("drain", "12"), ("submit", "3")])

    assert table.splitlines() == ["| what | figure |", "| :-- | --: |", "| drain | 12 |", "| submit | 3 |"]


def test_bars_are_as_long_as_the_logarithm_of_their_value() -> None:
    bars = [
        Bar(name, Spread(value, value, value, 3))
        for name, value in (("a", 10.0), ("b", 100.0), ("c", 1000.0))
    ]

    drawn = ET.fromstring(bar_chart("title", "subtitle", "jobs/s", bars))

    ends = [float(rect.attrib["x"]) + float(rect.attrib["width"]) for rect in drawn.iter(f"{SVG}rect")]
    assert ends[1] - ends[0] == pytest.approx(ends[2] - ends[1], abs=1.5)


def test_labels_cannot_break_the_bar_chart() -> None:
    drawn = bar_chart("<&>", "", "", [Bar("a < b & c", Spread(1.0, 1.0, 1.0, 1), ours=True)])

    labels = [text.text for text in ET.fromstring(drawn).iter(f"{SVG}text")]
    assert "a < b & c" in labels


def test_goals_judge_the_median() -> None:
    measured = Spread(2.0, 1.0, 3.0, 7)

    assert at_least(2).verdict(measured) == "reached"
    assert at_least(2.1).verdict(measured) == "missed"
    assert at_most(2).verdict(measured) == "reached"
    assert at_most(1.9).verdict(measured) == "missed"


def test_the_report_is_written_from_stored_results(tmp_path: Path) -> None:
    findings = Findings(path=tmp_path / "kept.json")
    rounds = [{"Beacon": 30_000.0 * speed, "pgqueuer": 10_000.0 * speed} for speed in (1.0, 0.5, 0.8)]
    section = Section("drain", rounds, {"pgqueuer": "batch 500"}, {"RQ": "not within 60 s"})
    findings.keep(section, Plan(rounds=3), {"cores": "2"}, {"pgqueuer": "1.6.0"})

    written = write_report(Findings.kept(tmp_path / "kept.json"), tmp_path)

    text = (tmp_path / "runner.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if "pgqueuer 1.6.0 (batch 500)" in line]
    assert "3.00 (3.00 to 3.00)" in line
    assert line.endswith("| reached |")
    assert "RQ did not complete at least once: not within 60 s" in text
    assert [path.name for path in written] == ["runner.md", "runner.svg"]


def test_a_section_that_is_measured_again_replaces_only_itself(tmp_path: Path) -> None:
    findings = Findings(path=tmp_path / "kept.json")
    findings.keep(Section("drain", [{"Beacon": 1.0}]), Plan(), {}, {})
    findings.keep(Section("submit", [{"submit": 2.0}]), Plan(), {}, {})
    findings.keep(Section("drain", [{"Beacon": 3.0}]), Plan(), {}, {})

    kept = Findings.kept(tmp_path / "kept.json")

    assert kept.rounds("drain") == [{"Beacon": 3.0}]
    assert kept.rounds("submit") == [{"submit": 2.0}]
