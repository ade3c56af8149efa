"""The report of estimated and actual waits."""

from dataclasses import replace
from pathlib import Path

from benchmarks.estimates.load import TIERS, submissions
from benchmarks.estimates.measurement import Measured
from benchmarks.estimates.report import share_within, write_report

JOB = Measured(
    kind="single",
    tier="free",
    at_s=1.0,
    model="flux",
    position=2,
    estimated_s=4.0,
    reason=None,
    actual_s=5.0,
    disturbed=False,
)


def test_all_waits_over_two_seconds_with_an_estimate_count() -> None:
    good, bad = JOB, replace(JOB, actual_s=30.0, disturbed=True)
    short, unknown = replace(JOB, actual_s=1.0), replace(JOB, estimated_s=None, reason="no backend")
    assert share_within([good, bad, short, unknown]) == 0.5


def test_the_report_shows_unknown_values(tmp_path: Path) -> None:
    jobs = [JOB, replace(JOB, actual_s=30.0, disturbed=True)]
    page = write_report(jobs, "2 jobs", {"cores": "2"}, tmp_path / "estimates.md").read_text("utf-8")
    rows = {line.split(" | ")[0]: line for line in page.splitlines() if line.startswith("| ")}
    assert "| 50% |" in rows["| all"]
    assert "| 100% |" in rows["| without a disturbance after the estimate"]


def test_the_load_is_the_same_for_the_same_seed() -> None:
    first, second = submissions(60.0, 2.0, seed=1), submissions(60.0, 2.0, seed=1)
    assert [(one.at_s, one.user, one.body) for one in first] == [
        (one.at_s, one.user, one.body) for one in second
    ]
    assert {one.kind for one in first} == {"single", "burst", "matrix", "pipeline"}
    assert all(0 <= one.user < len(TIERS) for one in first)
