"""Beacon's processes with a router that answers at once: `work` is worker and relay, `all` the API too."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from beacon_config import BeaconConfig, LiveConfig
from beacon_lifecycle import Service, Supervisor, SystemClock, run_process, tune_gc
from beacon_redis import RedisAddress
from beacon_runner.application.configuration import ConfigService
from beacon_runner.ports.router import InferencePort
from beacon_runner.postgres.config_revisions import PostgresConfigRevisions
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.jobs.claims import PostgresClaims
from beacon_runner.settings import RunnerSettings
from beacon_runner.wiring.api import build_api
from beacon_runner.wiring.loops import RelayStore, Transport, build_relay, build_worker
from beacon_runner.wiring.resources import Resource
from beacon_runner.wiring.roles import RELAY_POOL, WORKER_POOL
from beacon_runner.worker.executor import RouterExecutor
from beacon_telemetry import configure_logging, new_registry
from benchmarks.harness.pickup import arrived
from benchmarks.runner.systems.instant import HangingRouter, InstantRouter
from benchmarks.runner.systems.shipped import shipped_config, wide_config


def body(prompt: str) -> None:
    """A numeric prompt is the time when it was sent."""
    if prompt[0].isdigit():
        arrived(float(prompt))


def services(role: str, config: BeaconConfig, router: InferencePort) -> list[Service]:
    """Composed as `beacon_runner.wiring.roles` does, except for the router."""
    settings, clock, registry = RunnerSettings(), SystemClock(), new_registry()
    transport = Transport(LiveConfig(config), RedisAddress(settings.redis_url), registry, clock)
    made: list[Service] = [transport]
    if role in {"work", "relay", "all"}:
        made += _relay(settings, transport)
    if role in {"work", "worker", "all"}:
        made += _worker(settings, transport, router)
    if role == "all":
        revisions = PostgresConfigRevisions(Database(settings.database_url, size=1))
        made += build_api(settings, transport, ConfigService(revisions), registry)
    return made


def run_services(make: Callable[[], list[Service]]) -> int:
    configure_logging("runner", "console", "warning")

    async def build() -> Supervisor:
        return Supervisor(make(), stop_timeout_s=5)

    return run_process(build)


def _relay(settings: RunnerSettings, transport: Transport) -> list[Service]:
    database = Database(settings.database_url, size=RELAY_POOL)
    store = RelayStore.on(database)
    return [
        Resource("relay-database", open_it=database.open, close_it=database.close),
        *build_relay(transport, store),
    ]


def _worker(settings: RunnerSettings, transport: Transport, router: InferencePort) -> list[Service]:
    database = Database(settings.database_url, size=WORKER_POOL)
    claims = PostgresClaims(database)
    executor = RouterExecutor(router, transport.live)
    return [
        Resource("worker-database", open_it=database.open, close_it=database.close),
        *build_worker(transport, claims, executor),
    ]


def main() -> int:
    role, width, *manner = sys.argv[1:]
    tune_gc()
    config = wide_config(1_000, 500) if width == "wide" else shipped_config()
    router = HangingRouter(body) if manner == ["hang"] else InstantRouter(body)
    return run_services(lambda: services(role, config, router))


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.chdir(Path(__file__).resolve().parents[3])
    sys.exit(main())
