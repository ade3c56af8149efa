"""The home directory and its files."""

import json
import stat
from pathlib import Path

import pytest

from beacon_devstack.errors import DevstackError
from beacon_devstack.home import Home, write_private
from beacon_devstack.secret_store import Secrets
from beacon_devstack.servers.running import ServerSettings
from beacon_devstack.settings import StackSettings


def test_secrets_are_generated_once_and_readable_by_the_owner_only(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    first = Secrets.of(home)
    assert Secrets.of(home) == first
    assert Secrets.of(Home.at(tmp_path / "other")) != first
    assert stat.S_IMODE(home.secrets.stat().st_mode) == 0o600


def test_secrets_do_not_show_in_a_representation() -> None:
    secrets = Secrets.fresh()
    assert secrets.admin_key not in repr(secrets)


def test_damaged_secrets_are_named_and_not_replaced(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    home.secrets.write_text("{", encoding="utf-8")
    with pytest.raises(DevstackError, match=r"secrets\.json cannot be read"):
        Secrets.of(home)
    assert home.secrets.read_text(encoding="utf-8") == "{"


def test_a_private_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o644)
    write_private(path, {"a": 1})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_home_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DevstackError, match="set BEACON_HOME to a directory of yours"):
        Home.at(tmp_path / "file" / "home")


def test_the_home_is_a_setting_with_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Home.from_environment({}).path == tmp_path / ".beacon"
    assert Home.from_environment({"BEACON_HOME": "elsewhere"}).path == tmp_path / "elsewhere"


@pytest.mark.parametrize("value", ["65536", "-1", "eight"])
def test_an_invalid_port_is_named(value: str) -> None:
    with pytest.raises(DevstackError, match="BEACON_RUNNER_PORT must be a port between 0 and 65535"):
        StackSettings.from_environment({"BEACON_RUNNER_PORT": value})


def test_ports_and_addresses_are_read_from_the_environment() -> None:
    read = StackSettings.from_environment(
        {"BEACON_RUNNER_PORT": "0", "BEACON_ROUTER_PORT": "9100", "REDIS_URL": "redis://r.test/1"}
    )
    assert (read.runner_port, read.router_port) == (0, 9100)
    assert read.servers == ServerSettings(redis_url="redis://r.test/1")
