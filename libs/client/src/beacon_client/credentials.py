"""Addresses and keys from the environment, or from the file that `beacon up` writes."""

import json
from collections.abc import Mapping
from pathlib import Path

from beacon_contracts.credentials import DEFAULT_RUNNER_URL, Credentials

DEFAULT_HOME = ".beacon"
FILE_NAME = "credentials.json"


class CredentialsError(Exception):
    """The address or the credentials file is not usable; the message says why."""


def home_of(environ: Mapping[str, str]) -> Path:
    """BEACON_HOME, or `.beacon`."""
    return Path(environ.get("BEACON_HOME") or DEFAULT_HOME)


def find_credentials(environ: Mapping[str, str]) -> Credentials:
    """The values of the credentials file, each overridden by its environment variable.

    BEACON_API_KEY is used for everything: the server decides what it may do.
    """
    kept = _from_file(home_of(environ) / FILE_NAME)
    key = environ.get("BEACON_API_KEY", "")
    urls = environ.get("BEACON_ROUTER_URLS", "").split(",")
    runner_url = environ.get("BEACON_RUNNER_URL") or kept.get("runner_url") or DEFAULT_RUNNER_URL
    if not runner_url.startswith(("http://", "https://")):
        raise CredentialsError(f"BEACON_RUNNER_URL must begin with http:// or https://, not {runner_url!r}")
    return Credentials(
        runner_url=runner_url,
        router_url=environ.get("BEACON_ROUTER_URL") or urls[0].strip() or kept.get("router_url", ""),
        portal_url=kept.get("portal_url", ""),
        user_key=key or kept.get("user_key", ""),
        admin_key=key or kept.get("admin_key", ""),
        service_token=environ.get("BEACON_SERVICE_TOKEN") or kept.get("service_token", ""),
        config_path=environ.get("BEACON_CONFIG") or kept.get("config_path", ""),
    )


def _from_file(path: Path) -> dict[str, str]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CredentialsError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise CredentialsError(f"{path} does not hold an object")
    return {name: value for name, value in document.items() if isinstance(value, str)}
