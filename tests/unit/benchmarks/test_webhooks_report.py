"""The report of the webhooks' latency."""

from pathlib import Path

from benchmarks.webhooks.report import IDLE, STALLED, write_report


def test_the_report_has_percentiles_of_each_situation(tmp_path: Path) -> None:
    milliseconds = [float(number) for number in range(101)]
    rounds = [{IDLE: milliseconds, STALLED: [2 * one for one in milliseconds]}] * 3
    text = write_report(rounds, "3 rounds", tmp_path / "webhooks.md").read_text(encoding="utf-8")
    assert f"| {IDLE} | 50.0 (50.0 to 50.0) | 99.0 (99.0 to 99.0) |" in text
    assert f"| {STALLED} | 100 (100 to 100) | 198 (198 to 198) |" in text
    assert "3 rounds" in text
