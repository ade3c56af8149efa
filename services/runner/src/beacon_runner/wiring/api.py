"""Puts the API together: the one place that knows all of its parts."""

from collections.abc import Callable, Sequence
from functools import partial

from prometheus_client import CollectorRegistry

from beacon_config import BeaconConfig
from beacon_http.request_body import BodyLimits
from beacon_http.server import HttpServer, ServerLimits
from beacon_lifecycle import Clock, Service
from beacon_portal import portal_routes
from beacon_redis import RedisAddress
from beacon_runner.application.job_events import JobEventService
from beacon_runner.application.jobs import JobService
from beacon_runner.application.position_events import PositionEvents
from beacon_runner.application.priorities import Priorities, PriorityService, TierPriorities
from beacon_runner.application.public_queue import Explorer
from beacon_runner.application.queue_position import PositionService
from beacon_runner.application.submissions import SubmissionService
from beacon_runner.application.wait_estimator import WaitEstimator
from beacon_runner.application.wait_reason import Explainer
from beacon_runner.domain.admission import Admission
from beacon_runner.domain.classes import front_class, usable_classes
from beacon_runner.domain.pricing import skip_price
from beacon_runner.domain.verdict import RetryPolicy
from beacon_runner.http.admin_routes import Operations, admin_routes
from beacon_runner.http.app import create_app
from beacon_runner.http.auth import ApiKeyCache
from beacon_runner.http.catalogue_routes import Catalogue, catalogue_routes
from beacon_runner.http.event_routes import event_routes, socket_routes
from beacon_runner.http.health_routes import ReadinessCheck, health_routes
from beacon_runner.http.job_routes import execution_routes, job_routes
from beacon_runner.http.ledger_routes import ledger_routes
from beacon_runner.http.public_queue_routes import explorer_routes
from beacon_runner.http.user_routes import key_routes, user_routes
from beacon_runner.http.websocket_tokens import Tickets
from beacon_runner.maintenance.cancel_notifier import CancelNotifier
from beacon_runner.migrations import head
from beacon_runner.ports.queue_admin import QueueAdmin
from beacon_runner.ports.router import RouterPort
from beacon_runner.postgres.cancels import PostgresCancels, most_places
from beacon_runner.postgres.credit import Credit
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.dead_letters import DeadLetters
from beacon_runner.postgres.job_commands import JobControl
from beacon_runner.postgres.job_queries import Reader
from beacon_runner.postgres.outbox import PostgresOutbox
from beacon_runner.postgres.pauses import PostgresPauses
from beacon_runner.postgres.submissions import PostgresSubmissions
from beacon_runner.postgres.users import Users
from beacon_runner.redis_queue import Layout, RedisQueueAdmin
from beacon_runner.redis_queue.watchers import Watchers
from beacon_runner.router_client import RouterClient
from beacon_runner.settings import RunnerSettings
from beacon_runner.wiring.loops import Transport
from beacon_runner.wiring.resources import Resource
from beacon_telemetry import HttpMetrics

POOL = 8


class ApiParts:
    """The application and what it holds open."""

    def __init__(
        self,
        config: BeaconConfig,
        database: Database,
        queue: QueueAdmin,
        router: RouterPort,
        clock: Clock,
        *,
        watchers: Watchers,
        tickets: Tickets,
        ring: Callable[[], None],
        registry: CollectorRegistry,
        access_log: bool,
        priorities: Priorities | None = None,
    ) -> None:
        self.priorities = priorities or TierPriorities()
        admission, reader, users = Admission(config), Reader(database), Users(database)
        self.intake = PostgresSubmissions(database, clock, config.limits.queue_size, ring)
        self.outlook = WaitEstimator(queue, router, config, clock)
        keys = ApiKeyCache(users.principal, clock)
        policy = RetryPolicy(config.runner.job_retries, tuple(config.runner.job_retry_delays_s))
        most = most_places(config)
        control = JobControl(database, policy, router_cancels=most)
        courier = CancelNotifier(PostgresCancels(database, most_places=most), router)
        price_of = partial(skip_price, config)
        credit = Credit(database, price_of, front_class(config))
        standings = PositionService(self.outlook, router, reader, clock)
        jobs = JobService(reader, control, queue, courier, self.outlook, standings, credit, price_of, ring)
        events = JobEventService(jobs, watchers, PositionEvents(standings, control, clock), clock)
        operations = Operations(
            queue, PostgresOutbox(database), DeadLetters(database), PostgresPauses(database), reader, ring
        )
        submitting = SubmissionService(config, admission, keys, self.intake, self.outlook, self.priorities)
        self.metrics = HttpMetrics(registry, "beacon_runner")
        self.bodies = BodyLimits(config.limits.body_bytes, config.limits.body_timeout_s)
        self.explorer = Explorer(config, queue, reader, router, clock)
        self.app = create_app(
            submitting,
            [
                explorer_routes(self.explorer, submitting, keys),
                job_routes(jobs, Explainer(jobs, clock), keys),
                event_routes(events, keys),
                socket_routes(events, keys, tickets),
                execution_routes(jobs, keys),
                catalogue_routes(
                    Catalogue(config, admission, router, self.intake, users, self.priorities), keys
                ),
                admin_routes(operations, keys),
                ledger_routes(credit, users, keys),
                key_routes(users, keys),
                user_routes(users, keys),
                health_routes(ReadinessCheck(reader.version, head(), queue.ping), registry),
            ],
            portal_routes(),
            bodies=self.bodies,
            metrics=self.metrics,
            access_log=access_log,
        )

    async def close(self) -> None:
        """What was accepted is written before the connections go."""
        await self.intake.close()
        await self.outlook.close()
        await self.explorer.close()
        await self.priorities.close()


def build_api(
    settings: RunnerSettings, transport: Transport, registry: CollectorRegistry
) -> Sequence[Service]:
    """The services of the role `api`, in the order of their start."""
    config, clock, ring = transport.config, transport.clock, transport.outbox_notifier.notify
    database = Database(settings.database_url, size=POOL, name="beacon-api")
    address = RedisAddress(settings.redis_url, settings.redis_cluster)
    redis = address.open()
    watchers = Watchers(address, clock)
    router = RouterClient(settings.router_urls, settings.service_token.get_secret_value(), clock)
    desk = RedisQueueAdmin(redis, Layout.of(config, cluster=settings.redis_cluster))
    parts = ApiParts(
        config,
        database,
        desk,
        router,
        clock,
        watchers=watchers,
        tickets=Tickets(redis),
        ring=ring,
        registry=registry,
        access_log=settings.access_log,
        priorities=_priorities(settings, config, clock, registry),
    )
    limits = config.limits
    server = HttpServer(
        parts.app,
        host=settings.host,
        port=settings.port,
        ready_file=settings.ready_file,
        on_stop=parts.bodies.stop,
        on_refused=parts.metrics.connection_refused,
        limits=ServerLimits(limits.connections, limits.head_timeout_s, limits.reader_timeout_s),
        websockets=True,
    )
    parts.metrics.count_connections(lambda: server.connections)
    return [
        Resource("api-database", open_it=database.open, close_it=database.close),
        Resource("api-redis", close_it=redis.aclose),
        Resource("api-router-client", close_it=router.aclose),
        Resource("api-parts", close_it=parts.close),
        server,
        watchers,  # stopped first: streams end before the door closes
    ]


def _priorities(
    settings: RunnerSettings, config: BeaconConfig, clock: Clock, registry: CollectorRegistry
) -> Priorities:
    if settings.priority_url is None:
        return TierPriorities()
    return PriorityService(settings.priority_url, clock, registry, usable=usable_classes(config))
