"""Address and key: from the environment, then from the file that `beacon up` wrote."""

import json
from pathlib import Path

import pytest

from beacon_client.credentials import CredentialsError, find_credentials
from beacon_contracts.credentials import Credentials


def write(home: Path, **values: object) -> dict[str, str]:
    (home / "credentials.json").write_text(json.dumps(values), encoding="utf-8")
    return {"BEACON_HOME": str(home)}


def test_the_default_is_the_local_address_without_a_key(tmp_path: Path) -> None:
    assert find_credentials({"BEACON_HOME": str(tmp_path)}) == Credentials(runner_url="http://127.0.0.1:8000")


def test_all_values_are_read_from_the_file(tmp_path: Path) -> None:
    environ = write(tmp_path, runner_url="http://r", router_url="http://q", user_key="u", admin_key="a")
    found = find_credentials(environ)
    assert (found.runner_url, found.router_url, found.user_key, found.admin_key) == (
        "http://r",
        "http://q",
        "u",
        "a",
    )


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    environ = write(tmp_path, runner_url="http://r", user_key="u", admin_key="a", service_token="s")
    environ |= {
        "BEACON_RUNNER_URL": "http://other",
        "BEACON_API_KEY": "mine",
        "BEACON_ROUTER_URLS": "http://x, http://y",
    }
    found = find_credentials(environ)
    assert (found.runner_url, found.user_key, found.admin_key) == ("http://other", "mine", "mine")
    assert (found.router_url, found.service_token) == ("http://x", "s")


def test_the_configuration_of_the_running_system_is_found(tmp_path: Path) -> None:
    environ = write(tmp_path, config_path="/own/beacon.toml")
    assert find_credentials(environ).config_path == "/own/beacon.toml"
    assert find_credentials(environ | {"BEACON_CONFIG": "other.toml"}).config_path == "other.toml"


@pytest.mark.parametrize("content", ["{", "[]", ""])
def test_an_unusable_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "credentials.json").write_text(content, encoding="utf-8")
    with pytest.raises(CredentialsError, match=r"credentials\.json"):
        find_credentials({"BEACON_HOME": str(tmp_path)})


def test_no_secret_is_shown() -> None:
    shown = repr(Credentials(user_key="beacon_u", admin_key="beacon_a", service_token="beacon_s"))
    assert "beacon_" not in shown


def test_an_invalid_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="BEACON_RUNNER_URL must begin with http"):
        find_credentials({"BEACON_HOME": str(tmp_path), "BEACON_RUNNER_URL": "localhost:8000"})
