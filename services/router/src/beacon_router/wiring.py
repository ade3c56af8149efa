"""The composition root of the router."""

import asyncio
from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from beacon_config import BeaconConfig, LiveConfig
from beacon_files import open_store
from beacon_http.request_body import BodyLimits
from beacon_http.server import HttpServer, ServerLimits
from beacon_lifecycle import Clock, Loop, ReloadOnSignal, Service, Supervisor, SystemClock, WakeEvent
from beacon_redis import RedisAddress
from beacon_router.backend_pool import BackendPool, Build
from beacon_router.backends import BackendClient, build_backends
from beacon_router.configuration import RouterConfiguration
from beacon_router.http.app import create_app
from beacon_router.http.auth import ServiceAuth
from beacon_router.http.batch_handler import BatchHandler
from beacon_router.http.bodies import BodyReader
from beacon_router.http.config_routes import config_routes
from beacon_router.http.inference_handler import InferenceHandler
from beacon_router.http.inference_parser import InferenceParser
from beacon_router.http.presenter import InferencePresenter
from beacon_router.http.status import StatusReader
from beacon_router.http.status_routes import health_routes, status_routes
from beacon_router.limits import RedisLimiter
from beacon_router.metrics import RouterMetrics, StateCollector
from beacon_router.scheduler_config import policy_of, run_rules_of, scaled_to_zero, topology_of
from beacon_router.scheduling import Scheduler
from beacon_router.service.breakers import BreakerRules
from beacon_router.service.dispatch_service import DispatchRules, DispatchService
from beacon_router.service.health import HealthChecks, RecheckOnTransportError, RecheckTimer
from beacon_router.service.inference_store import StoreLimits
from beacon_router.service.region_choice import RegionChoice
from beacon_router.service.run_events import RunEvents
from beacon_router.service.shared_capacity import SharedCapacity
from beacon_router.settings import Settings
from beacon_telemetry import HttpMetrics, new_registry

MAX_RESPONSE_BYTES = 33_554_432  # of a backend, without files
STOP_MARGIN_S = 10.0


async def build(settings: Settings, live: LiveConfig, environ: Mapping[str, str]) -> Supervisor:
    clock, config = SystemClock(), live.current
    registry = new_registry()
    client = BackendClient()
    pool = BackendPool(config, environ, _backends_of(settings, config, client, clock, environ))
    topology = topology_of(config, replicas=settings.redis_url is not None)
    scheduler = Scheduler(topology, policy_of(config))
    ready = asyncio.Event()
    recheck = WakeEvent()
    limiter = _limiter(settings, config, clock)
    capacity = (
        None
        if limiter is None
        else SharedCapacity(
            topology,
            limiter,
            scheduler=scheduler,
            clock=clock,
            ready=ready,
            requeue=lambda run: dispatch.runs.requeue(run),  # noqa: PLW0108  (built below)
        )
    )
    dispatch = DispatchService(
        topology,
        scheduler,
        dispatch_rules(config),
        backends=pool.backends,
        clock=clock,
        events=_events(RouterMetrics(registry, live), RecheckOnTransportError(recheck.set), capacity),
        ready=ready,
    )
    registry.register(_state_collector(dispatch, live))
    checks = HealthChecks(
        pool.health_urls,
        client,
        transports=pool.transports,
        report=lambda name, cause: dispatch.breakers.checked(name, up=cause is None, cause=cause),
        recheck=RecheckTimer(dispatch.timers, recheck.set).plan,
    )
    configuration = RouterConfiguration(
        live,
        dispatch,
        pool,
        checks,
        clock,
        capacity=capacity,
        recheck=recheck.set,
        environ=environ,
        file=settings.config,
        state_file=settings.state_file,
    )
    # Stopped from the last to the first: running work ends while the server still answers.
    services: list[Service] = [
        client,
        *([limiter] if limiter else []),
        *([capacity] if capacity else []),
        _server(settings, live, dispatch, configuration, registry=registry),
        Loop("health", checks.run_once, interval_s=config.router.health_every_s, clock=clock, wakeup=recheck),
        dispatch,
        ReloadOnSignal(configuration.reload),
    ]
    return Supervisor(services, stop_timeout_s=config.router.stop_grace_s + STOP_MARGIN_S)


def _backends_of(
    settings: Settings, config: BeaconConfig, client: BackendClient, clock: Clock, environ: Mapping[str, str]
) -> Build:
    store, max_file_bytes = open_store(settings.files_url), config.files.max_bytes
    return lambda configs, workflows, transports: build_backends(
        configs,
        workflows,
        client,
        clock,
        environ,
        transports=transports,
        store=store,
        max_file_bytes=max_file_bytes,
        max_response_bytes=MAX_RESPONSE_BYTES,
    )


def _limiter(settings: Settings, config: BeaconConfig, clock: Clock) -> RedisLimiter | None:
    """A single router counts limits in the scheduler; with Redis, replicas share them."""
    if settings.redis_url is None:
        return None
    address = RedisAddress(settings.redis_url, cluster=settings.redis_cluster)
    return RedisLimiter(address, clock, lease_s=config.router.slot_lease_s)


def _events(
    metrics: RouterMetrics, recheck: RecheckOnTransportError, capacity: SharedCapacity | None
) -> RunEvents:
    return RunEvents(
        run_started=(metrics.run_started, *([capacity.run_started] if capacity else [])),
        run_ended=(metrics.run_ended, recheck.run_ended, *([capacity.run_ended] if capacity else [])),
        inference_ended=(metrics.inference_ended,),
        before_dispatch=(capacity.before_dispatch,) if capacity else (),
        dispatched=(capacity.dispatched,) if capacity else (),
    )


def dispatch_rules(config: BeaconConfig) -> DispatchRules:
    router = config.router
    return DispatchRules(
        runs=run_rules_of(config),
        breakers=BreakerRules(
            router.breaker_failures, router.breaker_open_s, router.rest_max_s, scaled_to_zero(config)
        ),
        queue_size=router.queue_size,
        store=StoreLimits(router.held_bytes, router.result_retention_s),
        stop_grace_s=router.stop_grace_s,
    )


def _server(
    settings: Settings,
    live: LiveConfig,
    dispatch: DispatchService,
    configuration: RouterConfiguration,
    *,
    registry: CollectorRegistry,
) -> HttpServer:
    auth = ServiceAuth(settings.service_token.get_secret_value())
    router = live.current.router
    nearest = RegionChoice(dispatch.scheduler, dispatch.breakers, dispatch.clock)
    parser = InferenceParser(live, dispatch.clock, nearest)
    presenter = InferencePresenter(dispatch.scheduler, dispatch.breakers, dispatch.clock, live)
    reader = BodyReader(dispatch.store, router.body_bytes)
    inference = InferenceHandler(dispatch, parser, presenter, auth, reader)
    batches = BatchHandler(dispatch, parser, presenter, auth, reader)
    others = [
        status_routes(StatusReader(live, dispatch), auth),
        config_routes(configuration.view, configuration.apply, auth),
        health_routes(registry, lambda: _unready(dispatch)),
    ]
    metrics = HttpMetrics(registry, "beacon_router")
    bodies = BodyLimits(router.body_bytes, router.body_timeout_s)
    server = HttpServer(
        create_app(
            inference, batches, others, bodies=bodies, metrics=metrics, access_log=settings.access_log
        ),
        host=settings.host,
        port=settings.port,
        ready_file=settings.ready_file,
        on_stop=bodies.stop,
        on_refused=metrics.connection_refused,
        limits=ServerLimits(router.connections, router.head_timeout_s, router.reader_timeout_s),
    )
    metrics.count_connections(lambda: server.connections)
    return server


def _unready(dispatch: DispatchService) -> str | None:
    return "the router is stopping" if dispatch.stopping else None


def _state_collector(dispatch: DispatchService, live: LiveConfig) -> StateCollector:
    def gauges() -> dict[str, float]:
        return {
            "backing_off": dispatch.runs.backing_off,
            "waiters": dispatch.store.waiters,
            "payload_bytes": dispatch.store.payload_bytes,
            "result_bytes": dispatch.store.result_bytes,
            "results": dispatch.store.results,
            "results_evicted": dispatch.store.evicted,
            "config_revision": live.revision or 0,
        }

    return StateCollector(
        lambda: dispatch.scheduler.snapshot(dispatch.clock.now()), gauges, dispatch.breakers.cause_codes
    )
