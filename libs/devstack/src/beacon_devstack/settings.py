"""Settings of the stack, read from the environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from beacon_devstack.ports import LOOPBACK
from beacon_devstack.servers.running import ServerSettings, port_setting

RUNNER_PORT = "BEACON_RUNNER_PORT"
ROUTER_PORT = "BEACON_ROUTER_PORT"
CONFIG = Path("config/beacon.toml")


@dataclass(frozen=True, slots=True)
class StackSettings:
    """Port 0 means any free port. `inherited` is the base of every process's environment."""

    config: Path
    servers: ServerSettings = field(default_factory=ServerSettings)
    host: str = LOOPBACK
    runner_port: int = 8000
    router_port: int = 8100
    log_format: str = "console"
    inherited: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "StackSettings":
        return cls(
            config=_config_path(environment),
            servers=ServerSettings.from_environment(environment),
            host=environment.get("BEACON_RUNNER_HOST") or LOOPBACK,
            runner_port=port_setting(environment, RUNNER_PORT, default=8000),
            router_port=port_setting(environment, ROUTER_PORT, default=8100),
            log_format=environment.get("BEACON_LOG_FORMAT") or "console",
            inherited=dict(environment),
        )


def _config_path(environment: Mapping[str, str]) -> Path:
    """BEACON_CONFIG, else config/beacon.toml below this directory, else the one of this checkout."""
    named = environment.get("BEACON_CONFIG")
    if named:
        return Path(named).resolve()
    if CONFIG.exists():
        return CONFIG.resolve()
    return Path(__file__).parents[4] / CONFIG
