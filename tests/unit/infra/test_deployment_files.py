"""The deployment files are valid, and the checks find errors in them."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from beacon_config import load_config
from beacon_config.topology import backend_url_variable
from infra.check import COMPOSE, GPU_SCALING, ROOT, SECRETS, main, manifests
from infra.compose_check import compose_errors
from infra.kubernetes_check import kubernetes_errors, scaling_errors


@pytest.fixture
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return copy.deepcopy(loaded)


def test_the_deployment_files_are_valid() -> None:
    assert main() == 0


def test_stock_images_serve_the_stores(compose: dict[str, Any]) -> None:
    assert compose["services"]["postgres"]["image"] == "postgres:18"
    assert compose["services"]["redis"]["image"] == "valkey/valkey:9"


def test_runner_services_start_after_the_migration(compose: dict[str, Any]) -> None:
    for role in ("api", "worker", "relay"):
        needs = compose["services"][role]["depends_on"]
        assert needs["migrate"] == {"condition": "service_completed_successfully"}


def test_every_simulated_backend_has_an_address_in_the_demo_of_compose(compose: dict[str, Any]) -> None:
    config = load_config(ROOT / "config" / "beacon.toml", {})
    passed = compose["services"]["router"]["environment"]
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    example = dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))
    for name, backend in config.backends.items():
        variable = backend_url_variable(name)
        assert passed[variable] is None, "one's own backend of this name must keep its address"
        assert example[variable].endswith(str(backend.url.path))


def test_a_configuration_and_backend_secrets_reach_compose(compose: dict[str, Any]) -> None:
    services = compose["services"]
    own = {name for name, service in services.items() if "build" in service}
    mounts = {
        name for name in own if any("BEACON_CONFIG_FILE" in str(mount) for mount in services[name]["volumes"])
    }
    assert mounts == own
    secrets = {
        name: [file["path"] for file in service["env_file"]]
        for name, service in services.items()
        if "env_file" in service
    }
    store = "./files.env"
    assert secrets == {"api": [store], "relay": [store], "router": [store, "./backends.env"]}
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert all(f"\n{name}=" in example for name in SECRETS)


def test_the_configuration_of_the_manifests_is_valid() -> None:
    assert load_config(ROOT / "infra" / "kubernetes" / "beacon.toml", {}).backends


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("services", "api", "helthcheck"), {}, "'helthcheck' was unexpected"),
        (
            ("services", "api", "volumes"),
            ["${BEACON_CONFIG_FILE:-./config/beacon.toml}:/x"],
            "taken for a volume",
        ),
        (("services", "api", "depends_on"), ["postgress"], "depends on postgress, which does not exist"),
        (("services", "api", "build", "dockerfile"), "nowhere", "there is no nowhere"),
        (("services", "router", "build", "args", "SERVICE"), "ruter", "there is no services/ruter"),
        (("services", "redis", "volumes"), ["lost:/data"], "the volume lost, which is not declared"),
        (("services", "redis", "volumes"), ["./lost:/data"], "mounts ./lost, which does not exist"),
        (("services", "api", "environment", "A_TOKEN"), "${A_TOKEN:-x}", "A_TOKEN is a secret"),
        (("services", "redis", "image"), "redis", "does not match"),
        (
            ("services", "api", "env_file"),
            [{"path": "./backends.env"}],
            "services.api: must not have the secrets of ./backends.env",
        ),
        (("services", "api", "volumes"), ["redis:/data"], "beacon.toml is not mounted"),
        (("services", "redis", "healthcheck", "interval"), "soon", "does not match"),
    ],
)
def test_an_error_in_the_compose_file_is_named(
    compose: dict[str, Any], path: tuple[str, ...], value: Any, complaint: str
) -> None:
    place = compose
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert any(complaint in error for error in compose_errors(compose, ROOT))


def test_a_service_without_a_health_check_is_named(compose: dict[str, Any]) -> None:
    del compose["services"]["redis"]["healthcheck"]
    assert list(compose_errors(compose, ROOT)) == [
        "services.redis: neither it nor its Dockerfile has a health check"
    ]


def _without_probes(manifest: dict[str, Any]) -> None:
    del manifest["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]


def _as_root(manifest: dict[str, Any]) -> None:
    del manifest["spec"]["template"]["spec"]["securityContext"]


def _unpinned(manifest: dict[str, Any]) -> None:
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "beacon-runner:latest"


def _selecting_others(manifest: dict[str, Any]) -> None:
    manifest["spec"]["selector"]["matchLabels"] = {"app.kubernetes.io/name": "other"}


def _with_replicas(manifest: dict[str, Any]) -> None:
    manifest["spec"]["replicas"] = 2


def _with_the_secret_of_the_router(manifest: dict[str, Any]) -> None:
    sources = manifest["spec"]["template"]["spec"]["containers"][0]["envFrom"]
    sources.append({"secretRef": {"name": "beacon-router"}})


def _without_configuration(manifest: dict[str, Any]) -> None:
    manifest["spec"]["template"]["spec"]["volumes"].pop()


def _without_a_file_store(manifest: dict[str, Any]) -> None:
    environment = manifest["spec"]["template"]["spec"]["containers"][0]["env"]
    environment[:] = [variable for variable in environment if variable["name"] != "BEACON_FILES_URL"]


def _renamed(manifest: dict[str, Any]) -> None:
    manifest["metadata"]["name"] = "other"


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_without_probes, "Deployment api: container api: has no readinessProbe"),
        (_as_root, "Deployment api: its pods may run as root"),
        (_unpinned, "Deployment api: container api: image beacon-runner:latest is not pinned to a version"),
        (_selecting_others, "Deployment api: its selector does not choose its own pods"),
        (_with_replicas, "HorizontalPodAutoscaler api: its target has a fixed number of replicas"),
        (_with_the_secret_of_the_router, "StatefulSet router: shares the Secret beacon-router with api"),
        (_without_configuration, "Deployment api: its pods do not mount the ConfigMap beacon-config"),
        (
            _without_a_file_store,
            "Deployment api: container api: has no BEACON_FILES_URL: pods share no directory for files",
        ),
        (_renamed, "HorizontalPodAutoscaler api: scales api, which does not exist"),
    ],
)
def test_an_error_in_a_manifest_is_named(spoil: Any, complaint: str) -> None:
    loaded = manifests()
    spoil(next(m for m in loaded if m["kind"] == "Deployment" and m["metadata"]["name"] == "api"))
    assert complaint in list(kubernetes_errors(loaded))


def _wrong_host(trigger: dict[str, Any]) -> None:
    trigger["metadata"]["url"] = "http://apis.beacon/admin/demand"


def _wrong_parameter(trigger: dict[str, Any]) -> None:
    trigger["metadata"]["url"] += "&modle=flux"


def _wrong_field(trigger: dict[str, Any]) -> None:
    trigger["metadata"]["valueLocation"] = "total.seconds"


def _wrong_key(trigger: dict[str, Any]) -> None:
    trigger["authenticationRef"]["name"] = "other"


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_wrong_host, "http://apis.beacon/admin/demand is not the demand at a Service of Beacon"),
        (_wrong_parameter, "/admin/demand has no parameter modle"),
        (_wrong_field, "the demand has no total.seconds"),
        (_wrong_key, "its authentication does not exist"),
    ],
)
def test_an_error_in_the_example_of_scaling_is_named(spoil: Any, complaint: str) -> None:
    example = list(yaml.safe_load_all(GPU_SCALING.read_text(encoding="utf-8")))
    (scaled,) = (m for m in example if m["kind"] == "ScaledObject")
    spoil(scaled["spec"]["triggers"][0])
    assert f"ScaledObject gpu-flux: {complaint}" in list(scaling_errors(example, manifests()))


def test_the_backend_of_the_example_of_scaling_is_valid(tmp_path: Path) -> None:
    """It is in the comment at the beginning."""
    text = GPU_SCALING.read_text(encoding="utf-8")
    lines = [line.removeprefix("#   ") for line in text.splitlines() if line.startswith("#   ")]
    file = tmp_path / "beacon.toml"
    file.write_text("\n".join(lines[next(n for n, line in enumerate(lines) if line[0] == "[") :]))
    (backend,) = load_config(file, {}).backends.values()
    assert backend.scale_to_zero
    (scaled,) = (m for m in yaml.safe_load_all(text) if m["kind"] == "ScaledObject")
    assert scaled["spec"]["minReplicaCount"] == 0
    query = f"model={backend.models[0]}&region={backend.region}"
    assert scaled["spec"]["triggers"][0]["metadata"]["url"].endswith(query)


def test_the_manifests_run_every_role() -> None:
    serving = {m["metadata"]["name"] for m in manifests() if m["kind"] in ("Deployment", "StatefulSet")}
    assert serving == {"api", "worker", "relay", "router"}


def test_workers_scale_on_the_age_of_the_queue() -> None:
    scaled = [m for m in manifests() if m["kind"] == "ScaledObject"]
    assert [m["spec"]["scaleTargetRef"]["name"] for m in scaled] == ["worker"]
    query = scaled[0]["spec"]["triggers"][0]["metadata"]["query"]
    assert "beacon_runner_queue_waiting" in query
    assert "rate(beacon_runner_jobs_claimed_total" in query


@pytest.mark.parametrize("path", sorted((ROOT / "infra").rglob("*.y*ml")), ids=lambda path: path.name)
def test_every_yaml_file_parses(path: Path) -> None:
    assert list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def test_the_dashboard_uses_the_provisioned_data_source() -> None:
    dashboard = json.loads((ROOT / "infra/grafana/dashboards/beacon.json").read_text(encoding="utf-8"))
    source = yaml.safe_load(
        (ROOT / "infra/grafana/provisioning/datasources/prometheus.yml").read_text(encoding="utf-8")
    )
    uid = source["datasources"][0]["uid"]
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert panels
    assert all(panel["datasource"]["uid"] == uid for panel in panels)
