"""`beacon config check` and the frame of the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from beacon_cli import app

SHIPPED = Path(__file__).parents[3] / "config" / "beacon.toml"

runner = CliRunner()


def test_a_valid_file_is_summarised() -> None:
    result = runner.invoke(app, ["config", "check", str(SHIPPED)])
    assert result.exit_code == 0, result.output
    assert "ok" in result.stdout
    assert "US, EU, ASIA" in result.stdout


def test_the_file_may_be_named_by_the_environment() -> None:
    result = runner.invoke(app, ["config", "check", "--json"], env={"BEACON_CONFIG": str(SHIPPED)})
    document = json.loads(result.stdout)
    assert document["ok"] is True
    assert document["path"] == str(SHIPPED)
    assert document["regions"] == ["US", "EU", "ASIA"]


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "beacon.toml"
    text = SHIPPED.read_text(encoding="utf-8")
    path.write_text(text.replace('region = "EU"', 'region = "[red]MARS"'), encoding="utf-8")
    return path


def test_an_invalid_file_is_reported_on_standard_error(broken: Path) -> None:
    result = runner.invoke(app, ["config", "check", str(broken)])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "backends.eu-1.region: is not a usable name" in result.stderr


def test_an_invalid_file_as_json(broken: Path) -> None:
    result = runner.invoke(app, ["config", "check", "--json", str(broken)])
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["ok"] is False
    assert any("backends.eu-1.region" in error for error in document["errors"])


def test_a_key_that_is_not_set_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "beacon.toml"
    text = SHIPPED.read_text(encoding="utf-8")
    path.write_text(text.replace("slots = 6", 'slots = 6\napi_key_env = "GPU_KEY"'), encoding="utf-8")
    result = runner.invoke(app, ["config", "check", str(path)], env={"GPU_KEY": ""})
    assert result.exit_code == 0
    assert (
        "backends.us-steps.api_key_env needs the environment variable GPU_KEY, which is not set"
        in result.stdout
    )
    assert "warning" not in runner.invoke(app, ["config", "check", str(path)], env={"GPU_KEY": "x"}).stdout


def test_a_secret_in_clear_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "beacon.toml"
    text = SHIPPED.read_text(encoding="utf-8")
    path.write_text(text.replace("slots = 6", 'slots = 6\nbasic_auth = "anna:secret"'), encoding="utf-8")
    result = runner.invoke(app, ["config", "check", str(path)])
    assert result.exit_code == 1
    assert "backends.us-steps.basic_auth" in result.stderr
    assert "anna:secret" not in result.output


def test_help_lists_the_commands() -> None:
    result = runner.invoke(app, ["--help"])
    assert result.exit_code == 0
    for word in ("up", "demo", "config", "Exit codes", "--install-completion"):
        assert word in result.stdout


def test_wrong_usage_is_exit_code_2() -> None:
    assert runner.invoke(app, ["config", "chekc"]).exit_code == 2
    assert runner.invoke(app, ["nonsense"]).exit_code == 2


def test_the_json_option_applies_to_one_command(broken: Path) -> None:
    runner.invoke(app, ["config", "check", "--json", str(broken)])
    assert "error:" in runner.invoke(app, ["config", "check", str(broken)]).stderr


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("router.attempts", "Attempts of one inference"),
        ("backends.gpu.headers", "env:NAME"),
        ("strict", "pools.<name>.strict"),
        ("backends", "health_url"),
    ],
)
def test_a_key_is_explained(key: str, shown: str) -> None:
    result = runner.invoke(app, ["config", "explain", key])
    assert result.exit_code == 0, result.output
    assert shown in result.stdout


def test_a_key_of_a_table_is_explained_alone() -> None:
    """`url` could also be the name of a backend, whose whole table would be explained."""
    result = runner.invoke(app, ["config", "explain", "backends.url", "--json"])
    assert [one["key"] for one in json.loads(result.stdout)] == ["backends.<name>.url"]


def test_an_unknown_key_is_named_with_similar_ones() -> None:
    result = runner.invoke(app, ["config", "explain", "router.attempt"])
    assert result.exit_code == 1
    assert "did you mean router.attempts" in result.stderr
