"""Errors in the Compose file: its schema, and references between services."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = Path(__file__).with_name("compose.schema.json")
CONFIG = "/etc/beacon/beacon.toml"
VARIABLE = re.compile(r"(?<!\$)\$\{([A-Z_]+)(:[-?][^}]*)?\}")
DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")
SECRET = re.compile(r"PASSWORD|TOKEN|_KEY")
SECRET_FILES = {"./backends.env": {"router"}, "./files.env": {"api", "relay", "router"}}
"""The services that have the secrets of backends, and the credentials of the file store."""


def compose_errors(document: dict[str, Any], root: Path) -> Iterator[str]:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    broken = list(jsonschema.Draft202012Validator(schema).iter_errors(document))
    yield from (f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in broken)
    if broken:
        return
    services: dict[str, dict[str, Any]] = document["services"]
    for name, service in services.items():
        where = f"services.{name}"
        yield from (f"{where}: {error}" for error in _build_errors(service, root))
        yield from (f"{where}: {error}" for error in _dependency_errors(service, services))
        yield from (f"{where}: {error}" for error in _volume_errors(service, document["volumes"], root))
        yield from (f"{where}: {error}" for error in _variable_errors(service))
        for file in service.get("env_file", []):
            if name not in SECRET_FILES.get(file["path"], ()):
                yield f"{where}: must not have the secrets of {file['path']}"
        if _is_beacons(service) and not any(CONFIG in str(mount) for mount in service.get("volumes", [])):
            yield f"{where}: beacon.toml is not mounted"
        if not _health_checked(service, root):
            yield f"{where}: neither it nor its Dockerfile has a health check"


def _is_beacons(service: dict[str, Any]) -> bool:
    return "build" in service


def _build_errors(service: dict[str, Any], root: Path) -> Iterator[str]:
    build = service.get("build")
    if build is None:
        return
    dockerfile = root / build["context"] / build["dockerfile"]
    if not dockerfile.is_file():
        yield f"there is no {build['dockerfile']}"
    folder = build.get("args", {}).get("SERVICE")
    if folder is not None and not (root / "services" / folder).is_dir():
        yield f"there is no services/{folder}"


def _dependency_errors(service: dict[str, Any], services: dict[str, dict[str, Any]]) -> Iterator[str]:
    needed = service.get("depends_on", {})
    conditions = (
        dict.fromkeys(needed, "service_started")
        if isinstance(needed, list)
        else {name: how["condition"] for name, how in needed.items()}
    )
    for name, condition in conditions.items():
        if name not in services:
            yield f"depends on {name}, which does not exist"
        elif condition == "service_healthy" and services[name].get("healthcheck", {}).get("disable"):
            yield f"waits for {name} to be healthy, which has no health check"


def _volume_errors(service: dict[str, Any], volumes: dict[str, Any], root: Path) -> Iterator[str]:
    for mount in service.get("volumes", []):
        if isinstance(mount, str) and mount.startswith("$"):
            yield f"mounts {mount} in the short form: a path without ./ would be taken for a volume"
        given = mount["source"] if isinstance(mount, dict) else mount
        source = DEFAULT.sub(r"\1", given).split(":")[0]
        if isinstance(mount, dict) or source.startswith(("./", "/")):
            if not (root / source).exists():
                yield f"mounts {source}, which does not exist"
        elif source not in volumes:
            yield f"mounts the volume {source}, which is not declared"


def _variable_errors(service: dict[str, Any]) -> Iterator[str]:
    """A secret without a value must prevent the start, not become an empty password."""
    for text in _texts(service):
        for name, fallback in VARIABLE.findall(text):
            if SECRET.search(name) and not fallback.startswith(":?"):
                yield f"{name} is a secret and must be required: ${{{name}:?…}}"


def _health_checked(service: dict[str, Any], root: Path) -> bool:
    if "healthcheck" in service:
        return True
    build = service.get("build")
    return build is not None and "HEALTHCHECK" in (root / build["dockerfile"]).read_text(encoding="utf-8")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
