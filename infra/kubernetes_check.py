"""Errors in the Kubernetes manifests that can be found without a cluster."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel

from beacon_contracts.demand import GpuDemand

NAME = "app.kubernetes.io/name"
CONFIG = "beacon-config"
SERVING = {"Deployment", "StatefulSet"}
SCALED = {"ScaledObject", "HorizontalPodAutoscaler"}
DEMAND_PATH = "/admin/demand"
DEMAND_QUERY = {"model", "region", "target_wait_s"}
FILES_ROLES = {"api", "relay", "beacon_router"}


def kubernetes_errors(manifests: list[dict[str, Any]]) -> Iterator[str]:
    named = {(m["kind"], m["metadata"]["name"]): m for m in manifests if "metadata" in m}
    serving = {name: m for (kind, name), m in named.items() if kind in SERVING}
    yield from _secret_errors(named)
    for (kind, name), manifest in named.items():
        where = f"{kind} {name}"
        if "apiVersion" not in manifest:
            yield f"{where}: no apiVersion"
        if kind in SERVING | {"Job"}:
            yield from (f"{where}: {error}" for error in _pod_errors(kind, manifest["spec"]))
        if kind in SCALED and manifest["spec"]["scaleTargetRef"]["name"] not in serving:
            yield f"{where}: scales {manifest['spec']['scaleTargetRef']['name']}, which does not exist"
        elif kind in SCALED and "replicas" in serving[manifest["spec"]["scaleTargetRef"]["name"]]["spec"]:
            yield f"{where}: its target has a fixed number of replicas"
        if (selected := _selected_name(kind, manifest)) and selected not in serving:
            yield f"{where}: selects {selected}, which does not exist"


def scaling_errors(example: list[dict[str, Any]], manifests: list[dict[str, Any]]) -> Iterator[str]:
    """Of a GPU deployment that KEDA scales by the demand that Beacon answers."""
    named = {(m["kind"], m["metadata"]["name"]): m for m in example}
    services = {m["metadata"]["name"] for m in manifests if m["kind"] == "Service"}
    for (kind, name), manifest in named.items():
        where = f"{kind} {name}"
        if kind == "Deployment":
            errors = _pod_security_errors(manifest["spec"]["template"]["spec"])
            yield from (f"{where}: {error}" for error in errors)
        if kind != "ScaledObject":
            continue
        target = named.get(("Deployment", manifest["spec"]["scaleTargetRef"]["name"]))
        if target is None or "replicas" in target["spec"]:
            yield f"{where}: its target is missing or has a fixed number of replicas"
        for trigger in manifest["spec"]["triggers"]:
            if ("TriggerAuthentication", trigger["authenticationRef"]["name"]) not in named:
                yield f"{where}: its authentication does not exist"
            yield from (f"{where}: {error}" for error in _demand_errors(trigger["metadata"], services))


def _demand_errors(metadata: dict[str, str], services: set[str]) -> Iterator[str]:
    url = urlsplit(metadata["url"])
    if (url.hostname or "").split(".")[0] not in services or url.path != DEMAND_PATH:
        yield f"{metadata['url']} is not the demand at a Service of Beacon"
    if unknown := parse_qs(url.query).keys() - DEMAND_QUERY:
        yield f"{DEMAND_PATH} has no parameter {min(unknown)}"
    model: Any = GpuDemand
    for field in metadata["valueLocation"].split("."):
        known = model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else {}
        if field not in known:
            yield f"the demand has no {metadata['valueLocation']}"
            return
        model = known[field].annotation


def _pod_security_errors(pod: dict[str, Any]) -> Iterator[str]:
    if not pod.get("securityContext", {}).get("runAsNonRoot"):
        yield "its pods may run as root"
    for container in pod["containers"]:
        errors = _container_errors("Deployment", container)
        yield from (f"container {container['name']}: {error}" for error in errors)


def _secret_errors(named: dict[tuple[str, str], dict[str, Any]]) -> Iterator[str]:
    """Each workload has Secrets of its own, so that only the router knows those of backends."""
    owners: dict[str, str] = {}
    for (kind, name), manifest in named.items():
        if kind not in SERVING | {"Job"}:
            continue
        pod = manifest["spec"]["template"]["spec"]
        for container in pod["containers"] + pod.get("initContainers", []):
            for source in container.get("envFrom", []):
                secret = source["secretRef"]["name"]
                if owners.setdefault(secret, name) != name:
                    yield f"{kind} {name}: shares the Secret {secret} with {owners[secret]}"


def _pod_errors(kind: str, spec: dict[str, Any]) -> Iterator[str]:
    pod = spec["template"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    if kind in SERVING and not spec["selector"]["matchLabels"].items() <= labels.items():
        yield "its selector does not choose its own pods"
    if not pod.get("securityContext", {}).get("runAsNonRoot"):
        yield "its pods may run as root"
    if not any(volume.get("configMap", {}).get("name") == CONFIG for volume in pod.get("volumes", [])):
        yield f"its pods do not mount the ConfigMap {CONFIG}"
    for container in pod["containers"] + pod.get("initContainers", []):
        yield from (f"container {container['name']}: {error}" for error in _container_errors(kind, container))


def _container_errors(kind: str, container: dict[str, Any]) -> Iterator[str]:
    image = container["image"]
    if ":" not in image or image.endswith(":latest"):
        yield f"image {image} is not pinned to a version"
    names = {variable["name"] for variable in container.get("env", [])}
    if not FILES_ROLES.isdisjoint(container.get("args", [])) and "BEACON_FILES_URL" not in names:
        yield "has no BEACON_FILES_URL: pods share no directory for files"
    context = container.get("securityContext", {})
    if context.get("allowPrivilegeEscalation") is not False or not context.get("readOnlyRootFilesystem"):
        yield "may gain privileges or write to its image"
    if context.get("capabilities", {}).get("drop") != ["ALL"]:
        yield "keeps capabilities"
    if "requests" not in container.get("resources", {}):
        yield "requests no resources"
    if kind in SERVING:
        yield from (
            f"has no {probe}" for probe in ("livenessProbe", "readinessProbe") if probe not in container
        )


def _selected_name(kind: str, manifest: dict[str, Any]) -> str | None:
    selector = manifest.get("spec", {}).get("selector")
    if kind == "Service":
        return str(selector[NAME])
    return str(selector["matchLabels"][NAME]) if kind == "PodDisruptionBudget" and selector else None
