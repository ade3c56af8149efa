"""`beacon simulate` on the shipped configuration."""

import json
from pathlib import Path

from typer.testing import CliRunner

from beacon_cli import app

SHIPPED = Path(__file__).parents[3] / "config" / "beacon.toml"

runner = CliRunner()


def test_a_generated_load_is_shown_by_tier_model_user_and_backend() -> None:
    result = runner.invoke(app, ["simulate", str(SHIPPED), "--requests", "200", "--top", "2"])
    assert result.exit_code == 0, result.output
    assert "200 in" in result.stdout
    for name in ("free", "flux", "user-1", "asia-1", "p95 wait by tier", "slots in use over time"):
        assert name in result.stdout


def test_a_recorded_load_as_json(tmp_path: Path) -> None:
    trace = tmp_path / "load.csv"
    trace.write_text("arrival_s,user,tier,model,run_s\n0,ann,free,flux,2\n", encoding="utf-8")
    result = runner.invoke(app, ["simulate", str(SHIPPED), "--trace", str(trace), "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["requests"], report["loads"]) == (1, 1)
    assert report["users"][0]["name"] == "ann"


def test_a_load_that_cannot_run_is_refused_with_the_reason(tmp_path: Path) -> None:
    trace = tmp_path / "load.csv"
    trace.write_text("arrival_s,user,tier,model,run_s\n0,ann,free,dalle,2\n", encoding="utf-8")
    result = runner.invoke(app, ["simulate", str(SHIPPED), "--trace", str(trace)])
    assert result.exit_code == 2
    assert "load.csv, line 2: no backend serves the model 'dalle'" in result.stderr


def test_a_load_for_which_no_slot_is_open_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "beacon.toml"
    text = SHIPPED.read_text(encoding="utf-8")
    config.write_text(text.replace("cap = 10", "cap = 0"), encoding="utf-8")
    result = runner.invoke(app, ["simulate", str(config), "--requests", "50"])
    assert result.exit_code == 2
    assert "requests never start, no slot is open to them" in result.stderr


def test_a_wrong_configuration_is_refused_with_its_key(tmp_path: Path) -> None:
    config = tmp_path / "beacon.toml"
    text = SHIPPED.read_text(encoding="utf-8")
    config.write_text(text.replace("cap = 10", "cap = -1"), encoding="utf-8")
    result = runner.invoke(app, ["simulate", str(config)])
    assert result.exit_code == 2
    assert "groups.modal.cap" in result.stderr
    missing = runner.invoke(app, ["simulate", str(tmp_path / "none.toml")])
    assert missing.exit_code == 2
    assert "none.toml" in missing.stderr
