"""The API on real servers, called without a network; worker and publisher are called by the test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import httpx
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from beacon_config import BeaconConfig, LiveConfig, load_config, read_document
from beacon_contracts.accounts import Scope
from beacon_contracts.api_keys import new_api_key
from beacon_contracts.configuration import RouterConfigRequest, RouterRevision
from beacon_contracts.ids import JobId, decode_job_id
from beacon_contracts.inference import InferenceView, RemoteRun
from beacon_contracts.router_status import SchedulerStatus
from beacon_files import open_store
from beacon_http.request_body import BodyLimits
from beacon_http.server import DEFAULT_LIMITS, HttpServer, ServerLimits
from beacon_lifecycle import ManualClock, SystemClock
from beacon_redis import RedisAddress
from beacon_runner.application.configuration import ConfigService
from beacon_runner.application.interactive_usage import UsageRecorder
from beacon_runner.domain.errors import QueueUnavailableError
from beacon_runner.domain.execution.stage_result import ClaimedJob
from beacon_runner.domain.inputs.encoded_request import EncodedRequest
from beacon_runner.domain.webhooks.urls import Network
from beacon_runner.ports.interactive import InteractiveEvent, OnEvent
from beacon_runner.ports.priorities import Priorities
from beacon_runner.ports.router import CancelResult, RouterStatus, RouterUnreachable
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.config_revisions import PostgresConfigRevisions
from beacon_runner.postgres.database import Database
from beacon_runner.redis_queue import Layout, RedisQueue, RedisQueueAdmin
from beacon_runner.redis_queue.request_limits import RedisRequestLimits
from beacon_runner.redis_queue.watchers import Watchers
from beacon_runner.redis_queue.websocket_tokens import RedisWebSocketTokens
from beacon_runner.wiring.api import ApiParts, ApiRouter
from beacon_runner.wiring.configuration import ConfigFollower, seed
from beacon_telemetry import new_registry
from tests.integration.runner_store.harness import StoreHarness

CONFIG_FILE = Path(__file__).parents[3] / "config" / "beacon.toml"
CONFIG = load_config(CONFIG_FILE, {})

GENERATION = {"kind": "generation", "model": "flux", "prompt": "a cat", "region": "US"}
MATRIX = {
    "kind": "matrix",
    "name": "bias check",
    "questions": [{"id": "q1", "prompt": "why?"}, {"id": "q2", "prompt": "how?"}],
    "models": ["llama3.2-1b"],
    "regions": ["US", "EU"],
}
# The routes that are served without a key.
WITHOUT_KEY = {
    "/healthz",
    "/readyz",
    "/queue-status",
    "/status",
    "/api/queue",
    "/files/{file_id}",
    "/files/{job_id}.zip",
}
PIPELINE = {"kind": "pipeline", "feature": "text_only", "input": {"prompt": "a city"}}


@dataclass
class RouterStandIn:
    """Records cancels and returns the answers that a test has set."""

    cancelled: list[str] = field(default_factory=list)
    unanswered: tuple[str, ...] = ()
    known: dict[str, InferenceView] = field(default_factory=dict)
    statuses: list[RouterStatus] = field(default_factory=list)
    schedulers: list[SchedulerStatus] = field(default_factory=list)
    revisions: list[RouterRevision] = field(default_factory=list)
    interactive: list[InteractiveEvent] = field(default_factory=list)
    answers: asyncio.Event | None = None
    """When set: before it the routers do not report their status."""

    async def find(self, request_id: str, region: str | None = None) -> InferenceView | None:
        return self.known.get(request_id)

    async def cancel(
        self,
        request_id: str,
        region: str | None = None,
        *,
        fence: int | None = None,
        remote: RemoteRun | None = None,
    ) -> CancelResult:
        self.cancelled.append(request_id)
        known = self.known.get(request_id)
        return CancelResult((known,) if known else (), self.unanswered)

    async def status(self) -> list[RouterStatus]:
        if self.answers is not None:
            await self.answers.wait()
        return self.statuses

    async def scheduler(self) -> list[SchedulerStatus]:
        return self.schedulers

    async def configs(self) -> list[RouterRevision]:
        return self.revisions

    async def configure(self, url: str, request: RouterConfigRequest) -> RouterRevision:
        return RouterRevision(url=url, revision=request.revision)

    async def stream(self, request: EncodedRequest, on_event: OnEvent) -> None:
        for state in self.interactive:
            await on_event(state)
        raise RouterUnreachable("there is no router", tries=1)


@dataclass
class ApiHarness:
    store: StoreHarness
    queue: RedisQueue
    redis: Any
    router: RouterStandIn
    users: PostgresUsers
    clock: ManualClock
    transport: httpx.ASGITransport
    notified: list[None]
    watchers: Watchers
    bodies: BodyLimits
    metrics: CollectorRegistry
    files: str
    live: LiveConfig
    configurations: PostgresConfigRevisions
    interactive_usage: UsageRecorder
    address: str | None = None  # where callers find it over a network
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    async def configure(self) -> dict[str, Any]:
        """Store the shipped file as the first revision; returns its document."""
        assert await seed(self.configurations, CONFIG_FILE)
        await self.follow_config()
        return read_document(CONFIG_FILE)

    async def follow_config(self) -> None:
        """What the process does when a revision was stored."""
        await ConfigFollower(self.configurations, self.live, {}).run_once()

    async def user(self, name: str = "anna", tier: str = "premium", *scopes: Scope) -> "Caller":
        return self.caller(await self.key(name, tier, *scopes))

    async def key(self, name: str, tier: str = "premium", *scopes: Scope) -> str:
        """The key of a new user."""
        key = new_api_key()
        await self.users.add(name, tier, key, scopes or [Scope.USER])
        return key

    async def admin(self) -> "Caller":
        return await self.user("root", "admin", Scope.USER, Scope.ADMIN)

    def caller(self, key: str | None) -> "Caller":
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        transport = self.transport if self.address is None else None
        base_url = self.address or "http://runner"
        self.clients.append(httpx.AsyncClient(transport=transport, base_url=base_url, headers=headers))
        return Caller(self.clients[-1])

    async def publish(self) -> int:
        """What the relay does."""
        async with self.store.outbox.take(1_000) as entries:
            return await self.queue.push(entries)

    async def claim(self, count: int = 1) -> Sequence[ClaimedJob]:
        """What a worker does first."""
        await self.publish()
        messages = await self.queue.claim(list(Layout().classes), count, "w1")
        return await self.store.claims.claim(messages, "w1")

    async def start(self, count: int = 1) -> Sequence[ClaimedJob]:
        """Claim jobs whose first executions then are on a GPU."""
        return [await self.store.start(claimed) for claimed in await self.claim(count)]

    async def run(self, *outcomes: str) -> JobId:
        """Claim the next job and complete its stage."""
        (claimed,) = await self.claim()
        await self.store.run(claimed, *outcomes)
        return claimed.id


@dataclass
class Caller:
    http: httpx.AsyncClient

    async def submit(self, body: dict[str, Any], **headers: str) -> str:
        answer = await self.http.post("/api/v1/jobs", json=body, headers=headers)
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["job_id"]
        decode_job_id(job_id)
        return job_id

    async def get(self, path: str, status: int = 200, /, **params: Any) -> Any:
        answer = await self.http.get(path, params=params)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def post(self, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        answer = await self.http.post(path, json=body, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def job(self, job_id: str) -> Any:
        return await self.get(f"/api/v1/jobs/{job_id}")


@asynccontextmanager
async def served(
    harness: ApiHarness,
    app: ASGIApp,
    folder: Path,
    limits: ServerLimits = DEFAULT_LIMITS,
    on_refused: Callable[[], None] = lambda: None,
) -> AsyncIterator[str]:
    """The address of an application on a real socket, served as in the real process."""
    ready = folder / "ready"
    server = HttpServer(
        app,
        host="127.0.0.1",
        port=0,
        ready_file=ready,
        stop_grace_s=0.1,
        on_stop=harness.bodies.stop,
        on_refused=on_refused,
        limits=limits,
        websockets=True,
    )
    await server.start()
    try:
        yield ready.read_text(encoding="utf-8")
    finally:
        for client in harness.clients:
            await client.aclose()
        await server.stop()


@asynccontextmanager
async def api_harness(
    database_url: str,
    redis_url: str,
    config: BeaconConfig = CONFIG,
    *,
    priorities: Priorities | None = None,
    webhook_networks: Sequence[Network] = (),
    routers: ApiRouter | None = None,
) -> AsyncIterator[ApiHarness]:
    files = mkdtemp(prefix="beacon-files-")
    database, redis = Database(database_url, size=5), RedisAddress(redis_url).open()
    await database.open()
    layout, clock, router = Layout.of(config, cluster=False), ManualClock(), RouterStandIn()
    notified: list[None] = []
    watchers = Watchers(RedisAddress(redis_url), SystemClock())
    await watchers.start()
    registry = new_registry()
    request_limits = RedisRequestLimits("requests", redis, clock)
    stream_limits = RedisRequestLimits("streams", redis, clock)
    live, configurations = LiveConfig(config), PostgresConfigRevisions(database)
    parts = ApiParts(
        live,
        database,
        RedisQueueAdmin(redis, layout),
        routers or router,
        clock,
        configuration=ConfigService(configurations),
        watchers=watchers,
        tokens=RedisWebSocketTokens(redis),
        request_limits=request_limits,
        stream_limits=stream_limits,
        notify_outbox=lambda: notified.append(None),
        publish=lambda _: notified.append(None),
        registry=registry,
        access_log=False,
        file_store=open_store(files),
        webhook_networks=webhook_networks,
        priorities=priorities,
    )
    queue = RedisQueue(redis, layout, lease_s=60)
    with suppress(QueueUnavailableError):  # some tests have none
        await RedisQueueAdmin(redis, layout).open()  # as a relay has done
    transport = httpx.ASGITransport(parts.app)
    try:
        yield ApiHarness(
            StoreHarness(database),
            queue,
            redis,
            router,
            PostgresUsers(database),
            clock,
            transport,
            notified,
            watchers,
            parts.bodies,
            registry,
            files,
            live,
            configurations,
            parts.interactive_usage,
        )
    finally:
        await watchers.stop()
        await request_limits.close()
        await stream_limits.close()
        await parts.close()
        await redis.aclose()
        await database.close()
        rmtree(files)
