"""Composition of the API process."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from prometheus_client import CollectorRegistry

from beacon_config import BeaconConfig, Derived, LiveConfig
from beacon_files import FileStore, open_store
from beacon_http.request_body import BodyLimits
from beacon_http.server import HttpServer, ServerLimits
from beacon_lifecycle import Clock, Loop, Service
from beacon_portal import portal_routes
from beacon_redis import RedisAddress
from beacon_runner.application.configuration import ConfigService
from beacon_runner.application.demand import DemandService
from beacon_runner.application.events import JobEventService
from beacon_runner.application.files import FileService
from beacon_runner.application.interactive import InteractiveService
from beacon_runner.application.interactive_usage import FLUSH_EVERY_S, UsageRecorder
from beacon_runner.application.jobs import CommandRules, JobService
from beacon_runner.application.operations import OperationService
from beacon_runner.application.position_events import PositionEvents
from beacon_runner.application.public_queue import PublicQueueService
from beacon_runner.application.queue_position import PositionService
from beacon_runner.application.request_memory import RequestMemory
from beacon_runner.application.submissions import SubmissionService
from beacon_runner.application.wait_estimator import WaitEstimator
from beacon_runner.application.wait_reason import WaitReasonService
from beacon_runner.application.webhooks import WebhookService
from beacon_runner.domain.accounts.skip_price import skip_price
from beacon_runner.domain.execution.retry_policy import RetryPolicy
from beacon_runner.domain.jobs.admission import Admission
from beacon_runner.domain.queue.classes import front_class, usable_classes
from beacon_runner.domain.queue.messages import OutboxEntry
from beacon_runner.domain.webhooks.urls import Network
from beacon_runner.http.admin.admin_routes import Operations, admin_routes
from beacon_runner.http.admin.audit_routes import audit_routes
from beacon_runner.http.admin.backend_routes import backend_routes, model_routes
from beacon_runner.http.admin.config_routes import CONFIG_PATH, config_routes
from beacon_runner.http.admin.demand_routes import demand_routes
from beacon_runner.http.admin.ledger_routes import ledger_routes
from beacon_runner.http.admin.user_routes import key_routes, user_routes
from beacon_runner.http.app import create_app
from beacon_runner.http.auth import ApiKeyCache
from beacon_runner.http.events.routes import event_routes, socket_routes
from beacon_runner.http.events.user_streams import UserStreams
from beacon_runner.http.openai.bodies import ChatBodies
from beacon_runner.http.openai.routes import openai_routes
from beacon_runner.http.routes.catalogue_routes import Catalogue, catalogue_routes
from beacon_runner.http.routes.export_routes import export_routes
from beacon_runner.http.routes.file_routes import FILES_PATH, file_routes
from beacon_runner.http.routes.health_routes import ReadinessCheck, health_routes
from beacon_runner.http.routes.job_routes import execution_routes, job_routes
from beacon_runner.http.routes.operation_routes import operation_routes, user_deletion_routes
from beacon_runner.http.routes.public_queue_routes import public_queue_routes
from beacon_runner.http.routes.submission_routes import submission_routes
from beacon_runner.http.routes.usage_routes import usage_routes
from beacon_runner.http.routes.webhook_routes import webhook_routes
from beacon_runner.maintenance.cancel_notifier import CancelNotifier
from beacon_runner.maintenance.publisher import InlinePublisher, OutboxPublisher
from beacon_runner.migrations import head
from beacon_runner.ports.configuration import RouterConfigs
from beacon_runner.ports.events import WebSocketTokenStore
from beacon_runner.ports.interactive import InteractivePort
from beacon_runner.ports.priorities import Priorities
from beacon_runner.ports.queue_admin import QueueAdmin
from beacon_runner.ports.request_limits import RequestLimits
from beacon_runner.ports.router import RouterPort
from beacon_runner.postgres.accounts.audit import PostgresAudit
from beacon_runner.postgres.accounts.credit import PostgresCredit
from beacon_runner.postgres.accounts.usage import PostgresUsage
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.files import PostgresFiles
from beacon_runner.postgres.jobs.cancels import PostgresCancels, max_router_cancels
from beacon_runner.postgres.jobs.dead_letters import PostgresDeadLetters
from beacon_runner.postgres.jobs.demand import PostgresDemand
from beacon_runner.postgres.jobs.job_commands import PostgresJobCommands
from beacon_runner.postgres.jobs.job_queries import PostgresJobQueries
from beacon_runner.postgres.jobs.operations import PostgresOperations
from beacon_runner.postgres.jobs.outbox import PostgresOutbox
from beacon_runner.postgres.jobs.pauses import PostgresPauses
from beacon_runner.postgres.jobs.submissions import PostgresSubmissions
from beacon_runner.postgres.webhooks.endpoints import PostgresWebhooks
from beacon_runner.priority_client import PriorityService
from beacon_runner.redis_queue import Layout, RedisQueueAdmin
from beacon_runner.redis_queue.request_limits import RedisRequestLimits
from beacon_runner.redis_queue.watchers import Watchers
from beacon_runner.redis_queue.websocket_tokens import RedisWebSocketTokens
from beacon_runner.router_client import RouterClient
from beacon_runner.settings import RunnerSettings
from beacon_runner.wiring.loops import Transport
from beacon_runner.wiring.resources import Resource
from beacon_telemetry import HttpMetrics

POOL_SIZE = 8
FORM_BYTES = 65_536  # of a form besides the file in it


class ApiRouter(RouterPort, InteractivePort, RouterConfigs, Protocol):
    """The routers, as the API uses them."""


class ApiParts:
    """The application, and the resources that it must close."""

    def __init__(
        self,
        live: LiveConfig,
        database: Database,
        queue: QueueAdmin,
        router: ApiRouter,
        clock: Clock,
        *,
        configuration: ConfigService,
        watchers: Watchers,
        tokens: WebSocketTokenStore,
        request_limits: RequestLimits,
        stream_limits: RequestLimits,
        notify_outbox: Callable[[], None],
        publish: Callable[[Sequence[OutboxEntry]], None],
        registry: CollectorRegistry,
        access_log: bool,
        file_store: FileStore,
        webhook_networks: Sequence[Network] = (),
        priorities: Priorities | None = None,
    ) -> None:
        self.priorities = priorities
        config = live.current  # for what applies from the start of the process
        admission, users, credit = (
            Derived(live, Admission),
            PostgresUsers(database),
            PostgresCredit(database),
        )
        queries = PostgresJobQueries(database)
        max_cancels = max_router_cancels(config)
        commands = PostgresJobCommands(database, max_router_cancels=max_cancels)
        cancels = CancelNotifier(PostgresCancels(database, max_executions=max_cancels), router)
        keys = ApiKeyCache(users.principal, clock, live)
        live.on_change.append(keys.clear)  # tiers may have changed
        rules = Derived(live, command_rules)
        usage = PostgresUsage(database)
        self.interactive_usage = UsageRecorder(usage)
        self.submissions = submitted = PostgresSubmissions(database, clock, config.limits.queue_size, publish)
        live.on_change.append(lambda: submitted.resize_queue(live.current.limits.queue_size))
        self.estimator = WaitEstimator(queue, router, live, clock)
        positions = PositionService(self.estimator, router, queries, clock)
        jobs = JobService(queries, commands, queue, positions, rules, cancels.notify, notify_outbox)
        events = JobEventService(jobs, watchers, PositionEvents(positions, commands, clock), clock)
        webhooks = WebhookService(
            PostgresWebhooks(database),
            webhook_networks,
            max_endpoints=lambda: live.current.limits.webhooks,
        )
        bulk = OperationService(PostgresOperations(database), jobs)
        submissions = SubmissionService(
            live,
            admission,
            self.submissions,
            self.estimator,
            priorities=self.priorities,
            clock=clock,
            webhooks=webhooks,
        )
        self.public_queue = PublicQueueService(live, queue, queries, router, clock)
        self.demand = DemandService(PostgresDemand(database), router, live, clock)
        file_records = PostgresFiles(database)
        files = FileService(file_records, file_store, live, clock)
        catalogue = Catalogue(
            live,
            admission,
            router,
            self.submissions,
            users,
            self.priorities,
            request_limits,
            stream_limits,
        )
        audit = PostgresAudit(database)
        operations = Operations(
            queue,
            PostgresOutbox(database),
            PostgresDeadLetters(database),
            PostgresPauses(database),
            queries,
            notify_outbox,
            audit,
        )
        self.metrics = HttpMetrics(registry, "beacon_runner")
        streams = UserStreams(stream_limits, live)
        limits = config.limits
        self.bodies = BodyLimits(
            limits.body_bytes,
            limits.body_timeout_s,
            {
                "/v1/": limits.openai_body_bytes,
                CONFIG_PATH: limits.openai_body_bytes,  # it contains workflows; a router accepts as much
                FILES_PATH: config.files.max_bytes + FORM_BYTES,
            },
            timed_by_part=(FILES_PATH,),
        )
        self.app = create_app(
            [
                # Interactive requests come first: they wait for their token, and routes are tried in order.
                openai_routes(
                    InteractiveService(live, router, request_limits, self.interactive_usage, clock),
                    keys,
                    clock,
                    ChatBodies(RequestMemory(limits.openai_held_bytes), limits.openai_body_bytes),
                ),
                submission_routes(submissions, events, streams, keys),
                public_queue_routes(self.public_queue, keys),
                job_routes(jobs, WaitReasonService(jobs, clock), keys),
                event_routes(events, keys, streams),
                socket_routes(events, keys, tokens, streams),
                execution_routes(jobs, keys),
                export_routes(jobs, keys),
                *file_routes(files, jobs, keys),
                *webhook_routes(webhooks, keys),
                catalogue_routes(catalogue, keys),
                admin_routes(operations, keys),
                operation_routes(bulk, keys),
                user_deletion_routes(bulk, keys),
                audit_routes(audit, keys),
                demand_routes(self.demand, keys),
                config_routes(configuration, router, keys),
                backend_routes(configuration, router, keys),
                model_routes(configuration, keys),
                *ledger_routes(credit, users, keys),
                *usage_routes(usage, keys, clock),
                key_routes(users, keys),
                user_routes(live, users, credit, keys, notify_outbox),
                health_routes(ReadinessCheck(queries.version, head(), queue.ping), registry),
            ],
            portal_routes(),
            bodies=self.bodies,
            metrics=self.metrics,
            cors_origins=config.api.cors_origins,
            access_log=access_log,
        )

    async def close(self) -> None:
        """Accepted submissions are written before the connections close."""
        await self.submissions.close()
        await self.interactive_usage.close()
        await self.estimator.close()
        await self.public_queue.close()
        await self.demand.close()
        if self.priorities is not None:
            await self.priorities.close()


def build_api(
    settings: RunnerSettings,
    transport: Transport,
    configuration: ConfigService,
    registry: CollectorRegistry,
) -> Sequence[Service]:
    """The services of the role `api`, in the order in which they start."""
    config, clock = transport.config, transport.clock
    database = Database(settings.database_url, size=POOL_SIZE, name="beacon-api")
    address = RedisAddress(settings.redis_url, settings.redis_cluster)
    redis = address.open()
    watchers = Watchers(address, clock)
    router = RouterClient(settings.router_urls, settings.service_token.get_secret_value(), clock)
    queue = RedisQueueAdmin(redis, Layout.of(config, cluster=settings.redis_cluster))
    publisher = OutboxPublisher(PostgresOutbox(database), transport.queue, transport.metrics)
    inline_publisher = InlinePublisher(publisher, transport.outbox_notifier.notify)
    request_limits = RedisRequestLimits("requests", redis, clock)
    stream_limits = RedisRequestLimits("streams", redis, clock)
    parts = ApiParts(
        transport.live,
        database,
        queue,
        router,
        clock,
        configuration=configuration,
        watchers=watchers,
        tokens=RedisWebSocketTokens(redis),
        request_limits=request_limits,
        stream_limits=stream_limits,
        notify_outbox=transport.outbox_notifier.notify,
        publish=inline_publisher.publish,
        registry=registry,
        access_log=settings.access_log,
        file_store=open_store(settings.files_url),
        webhook_networks=settings.webhook_networks,
        priorities=_priorities(settings, transport.live, clock, registry),
    )
    limits = config.limits
    server = HttpServer(
        parts.app,
        host=settings.host,
        port=settings.port,
        ready_file=settings.ready_file,
        stop_grace_s=config.runner.stop_grace_s,
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
        *_limit_services(request_limits, clock),
        *_limit_services(stream_limits, clock),
        inline_publisher,
        Resource("api-parts", close_it=parts.close),
        Loop("interactive-usage", parts.interactive_usage.flush, interval_s=FLUSH_EVERY_S, clock=clock),
        server,
        watchers,  # stopped first: streams end before the server
    ]


def command_rules(config: BeaconConfig) -> CommandRules:
    retries = RetryPolicy(config.runner.job_retries, tuple(config.runner.job_retry_delays_s))
    return CommandRules(retries, front_class(config), partial(skip_price, config))


def _limit_services(limits: RedisRequestLimits, clock: Clock) -> Sequence[Service]:
    """Open requests are released before the limits close."""
    name = f"{limits.name}-limits"
    return [
        Resource(name, close_it=limits.close),
        Loop(f"{name}-renewal", limits.renew, interval_s=limits.renew_every_s, clock=clock),
    ]


def _priorities(
    settings: RunnerSettings, live: LiveConfig, clock: Clock, registry: CollectorRegistry
) -> Priorities | None:
    if settings.priority_url is None:
        return None
    return PriorityService(settings.priority_url, clock, registry, usable=Derived(live, usable_classes))
