"""Which services make up a process of each role."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from beacon_config import LiveConfig
from beacon_files import open_store
from beacon_lifecycle import Clock, Service, Supervisor, SystemClock
from beacon_redis import RedisAddress
from beacon_runner.maintenance.cancel_notifier import CancelNotifier
from beacon_runner.maintenance.file_cleanup import FileCleanup
from beacon_runner.maintenance.metrics_collector import DemandCollector
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.files import PostgresFiles
from beacon_runner.postgres.jobs.cancels import PostgresCancels, max_router_cancels
from beacon_runner.postgres.jobs.claims import PostgresClaims
from beacon_runner.postgres.jobs.demand import PostgresDemand
from beacon_runner.router_client import RouterClient
from beacon_runner.router_client.batches import MAX_BATCH_BYTES
from beacon_runner.settings import Role, RunnerSettings
from beacon_runner.wiring.api import build_api
from beacon_runner.wiring.configuration import ProcessConfig
from beacon_runner.wiring.loops import RelayStore, Transport, build_relay, build_worker
from beacon_runner.wiring.resources import Resource
from beacon_runner.wiring.status_server import build_status_server
from beacon_runner.wiring.webhooks import build_webhooks
from beacon_runner.worker.executor import RouterExecutor
from beacon_telemetry import new_registry

WORKER_POOL = 6
RELAY_POOL = 6


async def build(role: Role, settings: RunnerSettings, environ: Mapping[str, str]) -> Supervisor:
    """Services start in this order and stop in the reverse one: intake ends first, connections last."""
    clock, registry = SystemClock(), new_registry()
    configuration = ProcessConfig(settings.database_url, settings.config_path, environ)
    live = await configuration.load()
    transport = _transport(settings, live, registry, clock)
    services: list[Service] = [transport, *configuration.services(live, clock, registry)]
    if role in (Role.RELAY, Role.ALL):
        services += _relay(settings, transport, configuration, registry)
    if role in (Role.WORKER, Role.ALL):
        services += _worker(settings, transport)
    if role in (Role.API, Role.ALL):
        services += build_api(settings, transport, configuration.service, registry)
    else:
        services += build_status_server(settings, transport.queue_admin, registry)
    return Supervisor(services, stop_timeout_s=live.current.runner.stop_grace_s + 10)


def _transport(
    settings: RunnerSettings, live: LiveConfig, registry: CollectorRegistry, clock: Clock
) -> Transport:
    address = RedisAddress(settings.redis_url, settings.redis_cluster)
    return Transport(live, address, registry, clock)


def _relay(
    settings: RunnerSettings,
    transport: Transport,
    configuration: ProcessConfig,
    registry: CollectorRegistry,
) -> list[Service]:
    database = Database(settings.database_url, size=RELAY_POOL, name="beacon-relay")
    cancels = PostgresCancels(database, max_executions=max_router_cancels(transport.config))
    store = RelayStore.on(database)
    files = FileCleanup(PostgresFiles(database), open_store(settings.files_url), transport.clock)
    router = _router_client(settings, transport)
    demand = DemandCollector(PostgresDemand(database), router, transport.live, transport.metrics)
    return [
        Resource("relay-database", open_it=database.open, close_it=database.close),
        Resource("relay-router-client", close_it=router.aclose),
        *build_relay(transport, store, CancelNotifier(cancels, router), files, demand),
        *build_webhooks(settings, transport, database, registry),
        configuration.push_loop(router, transport.clock),
    ]


def _worker(settings: RunnerSettings, transport: Transport) -> list[Service]:
    database = Database(settings.database_url, size=WORKER_POOL, name="beacon-worker")
    router = _router_client(settings, transport)
    claims = PostgresClaims(database, public_url=settings.public_url)
    executor = RouterExecutor(router, transport.live)
    return [
        Resource("worker-database", open_it=database.open, close_it=database.close),
        Resource("worker-router-client", close_it=router.aclose),
        *build_worker(transport, claims, executor),
    ]


def _router_client(settings: RunnerSettings, transport: Transport) -> RouterClient:
    return RouterClient(
        settings.router_urls,
        settings.service_token.get_secret_value(),
        transport.clock,
        max_batch_bytes=min(MAX_BATCH_BYTES, transport.config.router.body_bytes // 2),
    )
