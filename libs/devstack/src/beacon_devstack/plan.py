"""The processes of the system and their environments, computed before anything starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from beacon_config import BeaconConfig
from beacon_config.topology import BackendConfig, backend_url_variable
from beacon_devstack.ports import LOOPBACK, LOOPBACK_NETWORKS
from beacon_devstack.processes.process import ProcessSpec
from beacon_devstack.secret_store import Secrets
from beacon_devstack.settings import StackSettings

UNSPECIFIED = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True)
class Ports:
    runner: int
    router: int
    gpusim: Mapping[str, int]  # by region


@dataclass(frozen=True, slots=True)
class Plan:
    migrate: ProcessSpec
    bootstrap: ProcessSpec
    gpusims: tuple[ProcessSpec, ...]
    router: ProcessSpec
    runner: ProcessSpec


def simulated_backends(
    config: BeaconConfig, environment: Mapping[str, str]
) -> dict[str, dict[str, BackendConfig]]:
    """The backends that are marked as simulated and have no address in the environment, by region."""
    regions: dict[str, dict[str, BackendConfig]] = {}
    for name, backend in config.backends.items():
        if backend.simulated and not environment.get(backend_url_variable(name)):
            regions.setdefault(backend.region, {})[name] = backend
    return regions


def make_plan(
    config: BeaconConfig,
    settings: StackSettings,
    secrets: Secrets,
    ports: Ports,
    *,
    database_url: str,
    redis_url: str,
    files_url: str,
    router_state: str,
) -> Plan:
    simulated = simulated_backends(config, settings.inherited)
    runner_url = f"http://{_reachable(settings.host)}:{ports.runner}"
    router_url = f"http://{_reachable(settings.host)}:{ports.router}"
    shared = {
        **settings.inherited,
        "BEACON_CONFIG": str(settings.config),
        "BEACON_LOG_FORMAT": settings.log_format,
        "BEACON_SERVICE_TOKEN": secrets.service_token,
    }
    stores = {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    bootstrap = {
        "BEACON_BOOTSTRAP_USER_KEY": secrets.user_key,
        "BEACON_BOOTSTRAP_ADMIN_KEY": secrets.admin_key,
        "BEACON_BOOTSTRAP_APPLY_CONFIG": "1",  # the file may have changed since the last start
    }
    return Plan(
        migrate=ProcessSpec("migrate", "beacon_runner", {**shared, **stores}, ("migrate",)),
        bootstrap=ProcessSpec(
            "bootstrap", "beacon_runner", {**shared, **stores, **bootstrap}, ("bootstrap",)
        ),
        gpusims=tuple(
            _gpusim(region, backends, ports.gpusim[region], settings)
            for region, backends in simulated.items()
        ),
        router=ProcessSpec(
            "router",
            "beacon_router",
            {
                **shared,
                **_backend_urls(simulated, ports.gpusim),
                "REDIS_URL": redis_url,
                "BEACON_FILES_URL": files_url,
                "BEACON_ROUTER_STATE_FILE": router_state,
                "BEACON_ROUTER_HOST": settings.host,
                "BEACON_ROUTER_PORT": str(ports.router),
            },
            url=router_url,
        ),
        runner=ProcessSpec(
            "runner",
            "beacon_runner",
            {
                **shared,
                **stores,
                "BEACON_FILES_URL": files_url,
                "BEACON_PUBLIC_URL": runner_url,
                "BEACON_WEBHOOK_NETWORKS": settings.inherited.get(
                    "BEACON_WEBHOOK_NETWORKS", LOOPBACK_NETWORKS
                ),
                "BEACON_RUNNER_HOST": settings.host,
                "BEACON_RUNNER_PORT": str(ports.runner),
                "BEACON_ROUTER_URLS": router_url,
            },
            ("all",),
            url=runner_url,
        ),
    )


def _gpusim(
    region: str, backends: Mapping[str, BackendConfig], port: int, settings: StackSettings
) -> ProcessSpec:
    """One simulator serves all backends of its region."""
    return ProcessSpec(
        f"gpusim-{region.lower()}",
        "beacon_gpusim",
        {
            **settings.inherited,
            "BEACON_CONFIG": str(settings.config),
            "GPUSIM_HOST": LOOPBACK,
            "GPUSIM_PORT": str(port),
            "GPUSIM_REGION": region,
            "GPUSIM_SLOTS": str(sum(backend.slots for backend in backends.values())),
            "GPUSIM_LOADED_MODELS": str(sum(backend.loaded_models for backend in backends.values())),
            "GPUSIM_LOG_FORMAT": settings.log_format,
        },
        url=f"http://{LOOPBACK}:{port}",
    )


def _backend_urls(
    simulated: Mapping[str, Mapping[str, BackendConfig]], ports: Mapping[str, int]
) -> dict[str, str]:
    """The paths of the configuration, on the chosen ports."""
    return {
        backend_url_variable(name): urlsplit(str(backend.url))
        ._replace(netloc=f"{LOOPBACK}:{ports[region]}")
        .geturl()
        for region, backends in simulated.items()
        for name, backend in backends.items()
    }


def _reachable(host: str) -> str:
    """Where to call a server that listens on `host`."""
    return LOOPBACK if host in UNSPECIFIED else host
