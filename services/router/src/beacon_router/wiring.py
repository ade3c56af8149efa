"""The composition root of the router."""

import asyncio
from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from beacon_config import BeaconConfig
from beacon_files import open_store
from beacon_http.request_body import BodyLimits
from beacon_http.server import HttpServer, ServerLimits
from beacon_lifecycle import Clock, Loop, Service, Supervisor, SystemClock, WakeEvent
from beacon_redis import RedisAddress
from beacon_router.backends import BackendClient, build_backends, health_url, transport_of
from beacon_router.http.app import create_app
from beacon_router.http.auth import ServiceAuth
from beacon_router.http.batch_handler import BatchHandler
from beacon_router.http.bodies import BodyReader
from beacon_router.http.inference_answers import InferenceAnswers
from beacon_router.http.inference_handler import InferenceHandler
from beacon_router.http.inference_parser import InferenceParser
from beacon_router.http.presenter import InferencePresenter
from beacon_router.http.status import StatusReader
from beacon_router.http.status_routes import health_routes, status_routes
from beacon_router.limits import RedisLimiter
from beacon_router.metrics import RouterMetrics, StateCollector
from beacon_router.scheduler_config import policy_of, run_timeouts_of, topology_of
from beacon_router.scheduling import Scheduler, Topology
from beacon_router.service.backoff import BackoffPolicy
from beacon_router.service.breakers import BreakerRules
from beacon_router.service.dispatch_service import DispatchRules, DispatchService
from beacon_router.service.health import HealthChecks, RecheckOnTransportError, RecheckTimer
from beacon_router.service.inference_store import StoreLimits
from beacon_router.service.region_choice import RegionChoice
from beacon_router.service.run_controller import RunRules
from beacon_router.service.run_events import RunEvents
from beacon_router.service.shared_capacity import SharedCapacity
from beacon_router.service.timeouts import RunTimeouts
from beacon_router.settings import Settings
from beacon_telemetry import HttpMetrics, new_registry

MAX_RESPONSE_BYTES = 33_554_432  # of a backend, without files
STOP_MARGIN_S = 10.0


async def build(settings: Settings, config: BeaconConfig, environ: Mapping[str, str]) -> Supervisor:
    clock = SystemClock()
    registry = new_registry()
    client = BackendClient()
    transports = {name: transport_of(name, backend, environ) for name, backend in config.backends.items()}
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
        dispatch_rules(config, run_timeouts_of(config)),
        backends=build_backends(
            config.backends,
            {name: model.workflow for name, model in config.models.items() if model.workflow is not None},
            client,
            clock,
            environ,
            transports=transports,
            store=open_store(settings.files_url),
            max_file_bytes=config.files.max_bytes,
            max_response_bytes=MAX_RESPONSE_BYTES,
        ),
        clock=clock,
        events=_events(
            RouterMetrics(registry, tuple(config.tiers)), RecheckOnTransportError(recheck.set), capacity
        ),
        ready=ready,
    )
    registry.register(_state_collector(dispatch))
    checks = HealthChecks(
        {name: health_url(backend) for name, backend in config.backends.items() if not backend.scale_to_zero},
        client,
        transports=transports,
        report=lambda name, cause: dispatch.breakers.checked(name, up=cause is None, cause=cause),
        recheck=RecheckTimer(dispatch.timers, recheck.set).plan,
    )
    # Stopped from the last to the first: running work ends while the server still answers.
    services: list[Service] = [
        client,
        *([limiter] if limiter else []),
        *(capacity.services if capacity else []),
        _server(settings, config, dispatch, topology, registry=registry),
        Loop("health", checks.run_once, interval_s=config.router.health_every_s, clock=clock, wakeup=recheck),
        dispatch,
    ]
    return Supervisor(services, stop_timeout_s=config.router.stop_grace_s + STOP_MARGIN_S)


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


def dispatch_rules(config: BeaconConfig, timeouts: RunTimeouts) -> DispatchRules:
    router = config.router
    scale_to_zero = frozenset(name for name, backend in config.backends.items() if backend.scale_to_zero)
    return DispatchRules(
        runs=RunRules(
            BackoffPolicy(router.attempts, router.backoff_max_s), timeouts, router.reader_timeout_s
        ),
        breakers=BreakerRules(
            router.breaker_failures, router.breaker_open_s, router.rest_max_s, scale_to_zero
        ),
        queue_size=router.queue_size,
        store=StoreLimits(router.held_bytes, router.result_retention_s),
        stop_grace_s=router.stop_grace_s,
    )


def _server(
    settings: Settings,
    config: BeaconConfig,
    dispatch: DispatchService,
    topology: Topology,
    *,
    registry: CollectorRegistry,
) -> HttpServer:
    auth = ServiceAuth(settings.service_token.get_secret_value())
    router = config.router
    nearest = RegionChoice(topology, dispatch.scheduler, dispatch.breakers, dispatch.clock)
    load_s = {name: model.expected_load_s for name, model in config.models.items()}
    parser = InferenceParser(config, dispatch.clock, nearest)
    answers = InferenceAnswers(
        InferencePresenter(dispatch.scheduler, dispatch.breakers, dispatch.clock, load_s)
    )
    reader = BodyReader(dispatch.store, router.body_bytes)
    inference = InferenceHandler(dispatch, parser, answers, auth, reader)
    batches = BatchHandler(dispatch, parser, answers, auth, reader)
    others = [
        status_routes(StatusReader(config, dispatch), auth),
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


def _state_collector(dispatch: DispatchService) -> StateCollector:
    def gauges() -> dict[str, float]:
        return {
            "backing_off": dispatch.runs.backing_off,
            "waiters": dispatch.store.waiters,
            "payload_bytes": dispatch.store.payload_bytes,
            "result_bytes": dispatch.store.result_bytes,
            "results": dispatch.store.results,
            "results_evicted": dispatch.store.evicted,
        }

    return StateCollector(
        lambda: dispatch.scheduler.snapshot(dispatch.clock.now()), gauges, dispatch.breakers.cause_codes
    )
