"""The addresses and keys of a running system, as `credentials.json` holds them."""

from dataclasses import dataclass, field

DEFAULT_RUNNER_URL = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Empty strings where a value is unknown; `repr` never shows a key."""

    runner_url: str = DEFAULT_RUNNER_URL
    router_url: str = ""
    portal_url: str = ""
    user_key: str = field(default="", repr=False)
    admin_key: str = field(default="", repr=False)
    service_token: str = field(default="", repr=False)
    config_path: str = ""
    """The configuration of the system, if it runs on this machine."""
