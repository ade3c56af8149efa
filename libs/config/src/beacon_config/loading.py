"""Reads the file, applies what the environment overrides, and says what is wrong in words."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from beacon_config.root import BeaconConfig


class ConfigError(Exception):
    """The configuration cannot be used; the message names each key and what is wrong with it."""


def load_config(path: Path, environ: Mapping[str, str]) -> BeaconConfig:
    """The checked configuration of `path`, with backend addresses taken from `environ` where set."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: there is no such file; set BEACON_CONFIG to the path of beacon.toml"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from error
    _override_backend_urls(data, environ)
    try:
        return BeaconConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{path}: {line}" for line in _explain(error))) from error


def backend_url_variable(backend: str) -> str:
    """`us-1` is overridden by BEACON_BACKEND_US_1_URL."""
    return f"BEACON_BACKEND_{backend.upper().replace('-', '_').replace('.', '_')}_URL"


def _override_backend_urls(data: dict[str, Any], environ: Mapping[str, str]) -> None:
    backends = data.get("backends")
    if not isinstance(backends, dict):
        return
    for name, backend in backends.items():
        url = environ.get(backend_url_variable(name))
        if url and isinstance(backend, dict):
            backend["url"] = url


def _explain(error: ValidationError) -> list[str]:
    lines: list[str] = []
    for problem in error.errors(include_url=False):
        key = ".".join(str(part) for part in problem["loc"] if part != "[key]")
        message = problem["msg"].removeprefix("Value error, ")
        lines += [f"{key}: {line}" if key else line for line in message.splitlines()]
    return lines
