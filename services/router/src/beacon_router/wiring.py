"""Puts the router together: the one place that knows all its parts."""

from collections.abc import Mapping

import httpx
from httpx_aiohttp import AiohttpTransport
from prometheus_client import CollectorRegistry

from beacon_config import BeaconConfig
from beacon_config.limits import RouterConfig
from beacon_http.request_body import BodyLimits
from beacon_http.server import HttpServer, ServerLimits
from beacon_lifecycle import Clock, Loop, Service, Supervisor, SystemClock, WakeEvent
from beacon_redis import RedisAddress
from beacon_router.backends import Pool, build_backends
from beacon_router.http.app import create_app
from beacon_router.http.auth import ServiceAuth
from beacon_router.http.bodies import BodyReader
from beacon_router.http.callers import ApiKeyCache
from beacon_router.http.chat_handler import ChatHandler
from beacon_router.http.chat_parser import ChatReader
from beacon_router.http.chat_routes import chat_routes
from beacon_router.http.inference_handler import InferenceHandler
from beacon_router.http.inference_parser import InferenceParser
from beacon_router.http.presenter import Views
from beacon_router.http.status import StatusReader
from beacon_router.http.status_routes import health_routes, status_routes
from beacon_router.limits import RedisLimiter
from beacon_router.metrics import RouterMetrics, StateCollector
from beacon_router.resources import ClosedAtStop
from beacon_router.scheduling import Scheduler
from beacon_router.service.admission import AdmissionRules
from beacon_router.service.backoff import RetryPolicy
from beacon_router.service.breakers import BreakerRules
from beacon_router.service.dispatch_service import DispatchService, ShellRules
from beacon_router.service.health import HealthChecks, HealthOnLoss, NextLook, health_urls
from beacon_router.service.inference_store import HeldBounds
from beacon_router.service.limits import RunLimits
from beacon_router.service.observer import Observers
from beacon_router.service.run_controller import RunRules
from beacon_router.service.shared_capacity import SharedCapacity
from beacon_router.settings import Settings
from beacon_router.topology import policy_of, run_limits_of, topology_of
from beacon_telemetry import HttpMetrics, new_registry

# What a backend may answer at most, in bodies that a caller may send.
_ANSWER_BODIES = 32
_STOP_MARGIN_S = 10.0


async def build(settings: Settings, config: BeaconConfig, environ: Mapping[str, str]) -> Supervisor:
    clock = SystemClock()
    registry = new_registry()
    pool = Pool()
    topology = topology_of(config, replicas=settings.redis_url is not None)
    scheduler = Scheduler(topology, policy_of(config))
    look = WakeEvent()
    limiter = _limiter(settings, config, clock)
    shares = SharedCapacity(topology, limiter, scheduler=scheduler, clock=clock) if limiter else None
    metrics = RouterMetrics()
    shell = DispatchService(
        topology,
        scheduler,
        shell_rules(config.router, run_limits_of(config)),
        backends=build_backends(
            config.backends, pool, clock, environ, answer_bytes=config.router.body_bytes * _ANSWER_BODIES
        ),
        clock=clock,
        observer=Observers(metrics, HealthOnLoss(look.set), *([shares] if shares else [])),
    )
    if shares is not None:
        shares.join(shell.engine)
    registry.register(metrics)
    registry.register(_state_collector(shell))
    health_client = httpx.AsyncClient(transport=AiohttpTransport())
    checks = HealthChecks(
        health_urls(config.backends),
        health_client,
        report=lambda name, up: shell.breakers.checked(name, up=up),
        look_again=NextLook(shell.timers, look.set).plan,
    )
    runner_client = _runner_client(settings)
    chat = _chat(settings, config, shell, runner_client)
    server = _server(settings, config, shell, chat, registry=registry)
    # Stopped from the last to the first: what runs is finished while the door still answers.
    services: list[Service] = [
        pool,
        ClosedAtStop("health_client", health_client.aclose),
        *([ClosedAtStop("runner_client", runner_client.aclose)] if runner_client else []),
        *([limiter] if limiter else []),
        *(shares.services if shares else []),
        ClosedAtStop("chat", chat.close),
        server,
        Loop("health", checks.run_once, interval_s=config.router.health_every_s, clock=clock, wakeup=look),
        shell,
    ]
    return Supervisor(services, stop_timeout_s=config.router.stop_grace_s + _STOP_MARGIN_S)


def _limiter(settings: Settings, config: BeaconConfig, clock: Clock) -> RedisLimiter | None:
    """One router alone counts its caps in the scheduler; with Redis, replicas share them."""
    if settings.redis_url is None:
        return None
    address = RedisAddress(settings.redis_url, cluster=settings.redis_cluster)
    return RedisLimiter(address, clock, lease_s=config.router.slot_lease_s)


def shell_rules(router: RouterConfig, limits: RunLimits) -> ShellRules:
    return ShellRules(
        runs=RunRules(RetryPolicy(router.attempts, router.backoff_max_s), limits, router.reader_timeout_s),
        breakers=BreakerRules(router.breaker_failures, router.breaker_open_s, router.rest_max_s),
        admission=AdmissionRules(router.queue_size),
        held=HeldBounds(router.held_bytes, router.result_retention_s),
        stop_grace_s=router.stop_grace_s,
    )


def _runner_client(settings: Settings) -> httpx.AsyncClient | None:
    """For the keys of users; without a runner only the service token is accepted."""
    if settings.runner_url is None:
        return None
    return httpx.AsyncClient(base_url=settings.runner_url, transport=AiohttpTransport())


def _chat(
    settings: Settings, config: BeaconConfig, shell: DispatchService, runner_client: httpx.AsyncClient | None
) -> ChatHandler:
    return ChatHandler(
        shell.dispatcher,
        ChatReader(config, scheduler=shell.scheduler, breakers=shell.breakers, clock=shell.clock),
        ServiceAuth(settings.service_token.get_secret_value()),
        None if runner_client is None else ApiKeyCache(runner_client, shell.clock),
        BodyReader(shell.dispatcher, config.router.body_bytes),
        clock=shell.clock,
    )


def _server(
    settings: Settings,
    config: BeaconConfig,
    shell: DispatchService,
    chat: ChatHandler,
    *,
    registry: CollectorRegistry,
) -> HttpServer:
    auth = ServiceAuth(settings.service_token.get_secret_value())
    router = config.router
    desk = InferenceHandler(
        shell.dispatcher,
        InferenceParser(config, shell.clock),
        Views(
            shell.scheduler,
            shell.clock,
            {name: model.expected_load_s for name, model in config.models.items()},
        ),
        auth,
        BodyReader(shell.dispatcher, router.body_bytes),
    )
    others = [
        chat_routes(chat),
        status_routes(StatusReader(config, shell), auth),
        health_routes(registry, lambda: _unready(shell)),
    ]
    metrics = HttpMetrics(registry, "beacon_router")
    bodies = BodyLimits(router.body_bytes, router.body_timeout_s)
    server = HttpServer(
        create_app(desk, others, bodies=bodies, metrics=metrics, access_log=settings.access_log),
        host=settings.host,
        port=settings.port,
        ready_file=settings.ready_file,
        on_stop=bodies.stop,
        on_refused=metrics.connection_refused,
        limits=ServerLimits(router.connections, router.head_timeout_s, router.reader_timeout_s),
    )
    metrics.count_connections(lambda: server.connections)
    return server


def _unready(shell: DispatchService) -> str | None:
    return "the router is stopping" if shell.dispatcher.stopping else None


def _state_collector(shell: DispatchService) -> StateCollector:
    def figures() -> dict[str, float]:
        return {
            "backing_off": shell.engine.backing_off,
            "waiting_callers": shell.held.callers,
            "held_payload_bytes": shell.held.payload_bytes,
            "held_result_bytes": shell.held.result_bytes,
            "held_results": shell.held.results,
            "results_evicted": shell.held.evicted,
        }

    return StateCollector(lambda: shell.scheduler.snapshot(shell.clock.now()), figures)
