"""`python -m infra.check`: validates the deployment files, without a container engine or a cluster."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from infra.compose_check import compose_errors
from infra.kubernetes_check import kubernetes_errors, scaling_errors

ROOT = Path(__file__).parents[1]
COMPOSE = ROOT / "docker-compose.yml"
MANIFESTS = ROOT / "infra" / "kubernetes"
GPU_SCALING = MANIFESTS / "gpu" / "scaling.yaml"
SECRETS = (
    "POSTGRES_PASSWORD",
    "REDIS_PASSWORD",
    "BEACON_SERVICE_TOKEN",
    "BEACON_USER_KEY",
    "BEACON_ADMIN_KEY",
)


def main() -> int:
    errors = [
        *(f"docker-compose.yml: {error}" for error in compose_errors(_load(COMPOSE)[0], ROOT)),
        *(f"infra/kubernetes: {error}" for error in kubernetes_errors(manifests())),
        *(f"{GPU_SCALING.relative_to(ROOT)}: {error}" for error in gpu_scaling_errors()),
        *_resource_errors(),
        *_composed_errors(),
    ]
    for error in errors:
        sys.stderr.write(f"{error}\n")
    return 1 if errors else 0


def manifests() -> list[dict[str, Any]]:
    return [manifest for path in sorted(MANIFESTS.glob("*.yaml")) for manifest in _load(path)]


def gpu_scaling_errors() -> Iterator[str]:
    yield from scaling_errors(_load(GPU_SCALING), manifests())


def _load(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def _resource_errors() -> Iterator[str]:
    """kustomization.yaml lists all manifests that exist, and no others."""
    listed = set(_load(MANIFESTS / "kustomization.yaml")[0]["resources"])
    there = {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    for name in sorted(listed ^ there):
        fault = "listed but missing" if name in listed else "not listed in kustomization.yaml"
        yield f"infra/kubernetes: {name} is {fault}"


def _composed_errors() -> Iterator[str]:
    """The validation of Compose itself, where it is installed."""
    program = _compose_program()
    if program is None:
        return
    done = _run([*program, "-f", str(COMPOSE), "config", "-q"])
    if done.returncode != 0:
        yield f"docker-compose.yml: {done.stderr.strip()}"


def _compose_program() -> list[str] | None:
    if (standalone := shutil.which("docker-compose")) is not None:
        return [standalone]
    if (docker := shutil.which("docker")) is not None and _run(
        [docker, "compose", "version"]
    ).returncode == 0:
        return [docker, "compose"]
    return None


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | dict.fromkeys(SECRETS, "unset")
    return subprocess.run(  # noqa: S603 - a program found on the path, with fixed arguments
        command, env=environment, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    sys.exit(main())
