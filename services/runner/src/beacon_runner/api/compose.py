"""Puts the API together: the one place that knows all of its parts."""

from collections.abc import Callable, Sequence
from functools import partial

from prometheus_client import CollectorRegistry

from beacon_client.router import RouterClient
from beacon_config import BeaconConfig
from beacon_lifecycle import Clock, Service
from beacon_lifecycle.http_deadlines import ClientTimeouts
from beacon_lifecycle.http_server import HttpServer
from beacon_portal import portal_routes
from beacon_redis import RedisAddress
from beacon_runner.api.admin_routes import Operations, admin_routes
from beacon_runner.api.announcing import Announcer
from beacon_runner.api.app import create_app
from beacon_runner.api.auth import KeyRing
from beacon_runner.api.catalogue_routes import Catalogue, catalogue_routes
from beacon_runner.api.direct import DirectLane, direct_line
from beacon_runner.api.events import EventDesk
from beacon_runner.api.explorer import Explorer
from beacon_runner.api.explorer_routes import explorer_routes
from beacon_runner.api.health_routes import ReadinessCheck, health_routes
from beacon_runner.api.job_desk import JobDesk
from beacon_runner.api.job_routes import execution_routes, job_routes
from beacon_runner.api.ledger_routes import ledger_routes
from beacon_runner.api.live_routes import SLOW_AFTER_S, event_routes, socket_routes
from beacon_runner.api.outlook import Outlook
from beacon_runner.api.position_events import PositionEvents
from beacon_runner.api.priorities import Priorities, PriorityService, TierPriorities
from beacon_runner.api.router_desk import RouterDesk
from beacon_runner.api.standing import StandingDesk
from beacon_runner.api.submitting import SubmissionDesk
from beacon_runner.api.user_routes import key_routes, user_routes
from beacon_runner.api.why import Explainer
from beacon_runner.compose import Transport
from beacon_runner.domain.admission import Admission
from beacon_runner.domain.classes import front_class, usable_classes
from beacon_runner.domain.ports import QueueDesk
from beacon_runner.domain.pricing import skip_price
from beacon_runner.domain.verdict import RetryPolicy
from beacon_runner.live import HttpLine, SocketLine, Tickets, Watchers
from beacon_runner.loops.cancels import CancelCourier
from beacon_runner.loops.express import Express
from beacon_runner.migrations import head
from beacon_runner.queue import Layout, RedisDesk
from beacon_runner.resources import Resource
from beacon_runner.settings import RunnerSettings
from beacon_runner.store.cancels import PostgresCancels, most_places
from beacon_runner.store.control import JobControl
from beacon_runner.store.credit import Credit
from beacon_runner.store.database import Database
from beacon_runner.store.intake import Intake
from beacon_runner.store.letters import DeadLetters
from beacon_runner.store.outbox import PostgresOutbox
from beacon_runner.store.pauses import PostgresPauses
from beacon_runner.store.reading import Reader
from beacon_runner.store.submissions import Announce
from beacon_runner.store.users import Users
from beacon_telemetry import HttpMetrics
from beacon_web.crowds import crowd_of

POOL = 8


class ApiParts:
    """The application and what it holds open."""

    def __init__(
        self,
        config: BeaconConfig,
        database: Database,
        queue: QueueDesk,
        router: RouterDesk,
        clock: Clock,
        *,
        watchers: Watchers,
        tickets: Tickets,
        ring: Callable[[], None],
        announce: Announce,
        registry: CollectorRegistry,
        access_log: bool,
        priorities: Priorities | None = None,
        slow_after_s: float = SLOW_AFTER_S,
    ) -> None:
        self.priorities = priorities or TierPriorities()
        admission, reader, users = Admission(config), Reader(database), Users(database)
        self.intake = Intake(database, clock, config.limits.queue_size, announce)
        self.outlook = Outlook(queue, router, config, clock)
        keys = KeyRing(users.principal, clock)
        policy = RetryPolicy(config.runner.job_retries, tuple(config.runner.job_retry_delays_s))
        most = most_places(config)
        control = JobControl(database, policy, router_cancels=most)
        courier = CancelCourier(PostgresCancels(database, most_places=most), router)
        price_of = partial(skip_price, config)
        credit = Credit(database, price_of, front_class(config))
        standings = StandingDesk(self.outlook, router, reader, clock)
        jobs = JobDesk(reader, control, queue, courier, self.outlook, standings, credit, price_of, ring)
        events = EventDesk(jobs, watchers, PositionEvents(standings, control, clock), clock)
        operations = Operations(
            queue, PostgresOutbox(database), DeadLetters(database), PostgresPauses(database), reader, ring
        )
        submitting = SubmissionDesk(config, admission, keys, self.intake, self.outlook, self.priorities)
        metrics = HttpMetrics(registry, "beacon_runner")
        self.lane = DirectLane(submitting, metrics)
        self.explorer = Explorer(config, queue, reader, router, clock)
        self.app = create_app(
            submitting,
            [
                explorer_routes(self.explorer, submitting, keys),
                job_routes(jobs, Explainer(jobs, clock), keys),
                event_routes(events, keys, patience_s=slow_after_s),
                socket_routes(events, keys, tickets, patience_s=slow_after_s),
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
            metrics=metrics,
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
    config, clock, ring = transport.config, transport.clock, transport.bell.ring
    database = Database(settings.database_url, size=POOL, name="beacon-api")
    address = RedisAddress(settings.redis_url, settings.redis_cluster)
    redis = address.open()
    watchers = Watchers(address.open_listener(), clock)
    router = RouterClient(settings.router_urls, settings.service_token.get_secret_value(), clock)
    express = Express(transport.queue, PostgresOutbox(database), ring, clock, transport.metrics)
    desk = RedisDesk(redis, Layout.of(config, cluster=settings.redis_cluster))
    parts = ApiParts(
        config,
        database,
        desk,
        router,
        clock,
        watchers=watchers,
        tickets=Tickets(redis),
        ring=ring,
        announce=Announcer(express, ring),
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
        # The access log is written by the framework's way only.
        protocol=HttpLine if settings.access_log else direct_line(parts.lane),
        timeouts=ClientTimeouts(limits.head_timeout_s, limits.body_timeout_s, limits.reader_timeout_s),
        websockets=SocketLine,
        crowd=crowd_of(limits.connections, parts.lane.metrics.connection_refused),
    )
    parts.lane.metrics.count_connections(lambda: server.connections)
    return [
        Resource("api-database", open_it=database.open, close_it=database.close),
        Resource("api-redis", close_it=redis.aclose),
        Resource("api-router-client", close_it=router.aclose),
        express,
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
