"""Reads and validates the configuration file, with overrides from the environment."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from beacon_config.errors import explain
from beacon_config.root import BeaconConfig
from beacon_config.topology import backend_url_variable


class ConfigError(Exception):
    """The configuration is invalid; `problems` has each key and its error, the message all of them."""

    def __init__(self, message: str, problems: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


def load_config(path: Path, environ: Mapping[str, str]) -> BeaconConfig:
    """The validated configuration, with backend addresses from `environ` where set."""
    try:
        return parse_document(read_document(path), environ)
    except ConfigError as error:
        raise ConfigError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from error


def read_document(path: Path) -> dict[str, Any]:
    """The document of a file as it can be stored: without references to other files."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError("there is no such file; set BEACON_CONFIG to the path of beacon.toml") from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"is not valid TOML: {error}") from error
    _resolve_files(data, path.parent)
    _read_json_files(data, path)
    return data


def parse_document(document: Mapping[str, Any], environ: Mapping[str, str]) -> BeaconConfig:
    """The validated configuration, with backend addresses from `environ` where set."""
    _check_storable(document)
    data = dict(document)
    replaced = _override_backend_urls(data, environ)
    try:
        return BeaconConfig.model_validate(data)
    except ValidationError as error:
        problems = explain(error, replaced)
        lines = (f"{key}: {reason}" if key else reason for key, reason in problems)
        raise ConfigError("\n".join(lines), problems) from error


def _check_storable(document: Mapping[str, Any]) -> None:
    """Free parts, such as schemas and workflows, may have what JSON text in UTF-8 does not."""
    try:
        orjson.dumps(document, default=str)
    except (TypeError, RecursionError) as error:
        reason = f"cannot be stored as JSON: {error}"
        raise ConfigError(reason, [("", reason)]) from error


def _resolve_files(data: dict[str, Any], folder: Path) -> None:
    """Relative paths are relative to the configuration file."""
    backends = data.get("backends")
    for backend in backends.values() if isinstance(backends, dict) else ():
        if isinstance(backend, dict) and isinstance(backend.get("ca"), str):
            backend["ca"] = str(folder / backend["ca"])


def _read_json_files(data: dict[str, Any], path: Path) -> None:
    """Schemas and workflows may be in files of their own; a path is relative to the configuration file."""
    models = data.get("models")
    for name, model in models.items() if isinstance(models, dict) else ():
        if isinstance(model, dict):
            _read_json_file(model, "input_schema", f"models.{name}", path)
            if isinstance(model.get("workflow"), dict):
                _read_json_file(model["workflow"], "graph", f"models.{name}.workflow", path)


def _read_json_file(table: dict[str, Any], key: str, section: str, path: Path) -> None:
    if not isinstance(table.get(key), str):
        return
    source = path.parent / table[key]
    try:
        table[key] = json.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{section}.{key}: {source} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{section}.{key}: {source} is not JSON: {error}") from error


def _override_backend_urls(
    data: dict[str, Any], environ: Mapping[str, str]
) -> dict[tuple[int | str, ...], str]:
    """Apply the addresses of the environment; returns the replaced keys with their variables."""
    backends = data.get("backends")
    if not isinstance(backends, dict):
        return {}
    replaced: dict[tuple[int | str, ...], str] = {}
    data["backends"] = backends = dict(backends)
    for name, backend in backends.items():
        variable = backend_url_variable(name)
        if environ.get(variable) and isinstance(backend, dict):
            backends[name] = backend | {"url": environ[variable]}
            replaced["backends", name, "url"] = variable
    return replaced
