"""Real Postgres and Redis, the loops on top of them, and an executor that ends executions on command."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from prometheus_client import CollectorRegistry

from beacon_config import BeaconConfig, LiveConfig, load_config
from beacon_config.queues import PoolConfig
from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.ids import JobId, UserId, new_uuid
from beacon_contracts.inference import InferenceState, InferenceView, Timing
from beacon_contracts.jobs import GenerationJob, MatrixJob, PipelineJob
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import Clock, SystemClock
from beacon_redis import RedisAddress
from beacon_runner.domain.execution.plan import PendingExecution
from beacon_runner.domain.execution.stage_result import ClaimedJob
from beacon_runner.domain.jobs.admission import Admission
from beacon_runner.domain.jobs.submissions import NewJob
from beacon_runner.domain.queue.lanes import lane_at_submission
from beacon_runner.maintenance.publisher import OutboxPublisher
from beacon_runner.maintenance.redis_mirror import RedisMirror
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.jobs.claims import PostgresClaims
from beacon_runner.postgres.jobs.outbox import PostgresOutbox
from beacon_runner.postgres.jobs.pauses import PostgresPauses
from beacon_runner.postgres.jobs.reconcile import PostgresReconcile
from beacon_runner.postgres.jobs.submissions import PostgresSubmissions
from beacon_runner.wiring.loops import Transport, build_worker
from beacon_runner.worker.run import Outcome
from tests.fixtures.job_service import JobCommandsHarness
from tests.fixtures.waiting import until

CONFIG = load_config(Path(__file__).parents[3] / "config" / "beacon.toml", {})
ALL_CLASSES = list(JobClass)


ONE_POOL = {"all": PoolConfig(slots=50, classes=ALL_CLASSES)}


def configured(pools: Mapping[str, PoolConfig] = ONE_POOL, **changes: Any) -> BeaconConfig:
    """The shipped configuration with one pool of 50 slots; keyword arguments change [runner]."""
    return CONFIG.model_copy(
        update={
            "pools": dict(pools),
            "runner": CONFIG.runner.model_copy(update={"stop_grace_s": 0.2, **changes}),
        }
    )


def completed(output: Any = "done") -> InferenceView:
    return InferenceView(
        request_id="any",
        state=InferenceState.COMPLETED,
        model="flux",
        requested_region="US",
        actual_region="US",
        backend="us-1",
        fence=1,
        output=output,
        timing=Timing(),
    )


def failed(*, retryable: bool = True, code: str = "backend_error") -> Failure:
    return Failure(code=code, stage=FailureStage.RUN, retryable=retryable, message="it broke")


@dataclass
class Running:
    job: ClaimedJob
    due: PendingExecution
    on_state: Callable[[InferenceView | None], None]
    outcome: "asyncio.Future[Outcome]" = field(default_factory=asyncio.Future)
    given_up: bool = False

    def done(self, outcome: Outcome) -> None:
        """It has ended; of no effect when the worker does not wait for it any more."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def accepted(self) -> None:
        """A router has read it."""
        self.on_state(None)

    def moved(self, state: InferenceState) -> None:
        """The router reports that it has started or waits again."""
        self.on_state(completed().model_copy(update={"state": state, "output": None}))


@dataclass
class ScriptedExecutor:
    """Holds executions until the test ends them; `at_once` answers immediately instead.

    With `accepts` false the test calls `accepted` of each run, with `starts` false it calls `moved`.
    """

    at_once: Callable[[ClaimedJob, PendingExecution], Outcome] | None = None
    accepts: bool = True
    starts: bool = True
    runs: list[Running] = field(default_factory=list)

    async def run(
        self, job: ClaimedJob, started: PendingExecution, on_state: Callable[[InferenceView | None], None]
    ) -> Outcome:
        run = Running(job, started, on_state)
        self.runs.append(run)
        if self.accepts:
            run.accepted()
            if self.starts:
                run.moved(InferenceState.RUNNING)
        if self.at_once is not None:
            return self.at_once(job, started)
        try:
            return await run.outcome
        except asyncio.CancelledError:
            run.given_up = True
            raise

    async def started(self, count: int) -> list[Running]:
        await until(lambda: len(self.runs) >= count, f"{count} executions have started")
        return self.runs


@dataclass
class LoopHarness:
    config: BeaconConfig
    database: Database
    transport: Transport

    @classmethod
    @asynccontextmanager
    async def on(
        cls, database_url: str, redis_url: str, *, clock: Clock | None = None, **changes: Any
    ) -> AsyncIterator[Self]:
        config = configured(**changes)
        database = Database(database_url, size=6)
        await database.open()
        address = RedisAddress(redis_url)
        transport = Transport(LiveConfig(config), address, CollectorRegistry(), clock or SystemClock())
        await transport.queue_admin.open()  # as a relay has done
        try:
            yield cls(config, database, transport)
        finally:
            await transport.stop()
            await database.close()

    @property
    def queue(self) -> Any:
        return self.transport.queue

    @property
    def claims(self) -> PostgresClaims:
        return PostgresClaims(self.database)

    @property
    def outbox(self) -> PostgresOutbox:
        return PostgresOutbox(self.database)

    @property
    def live(self) -> PostgresReconcile:
        return PostgresReconcile(self.database)

    @property
    def pauses(self) -> PostgresPauses:
        return PostgresPauses(self.database)

    @property
    def mirror(self) -> RedisMirror:
        return RedisMirror(self.live, self.pauses, self.transport.queue_admin, page=2)

    async def cancel(self, job: JobId) -> None:
        """Stored; nothing is sent to the routers."""
        await JobCommandsHarness(self.database).service(self.config).cancel(job, None)

    @property
    def publisher(self) -> OutboxPublisher:
        return OutboxPublisher(self.outbox, self.queue, self.transport.metrics)

    async def submit(
        self,
        count: int = 1,
        *,
        tier: str = "free",
        user: UserId | None = None,
        body: Any = None,
    ) -> list[JobId]:
        owner = user or UserId(new_uuid())
        await self.database.execute(
            "INSERT INTO users (id, name, tier) VALUES ($1, $1::uuid::text, $2) ON CONFLICT DO NOTHING",
            owner,
            tier,
        )
        admission = Admission(self.config)
        body = body or GenerationJob(kind="generation", model="flux", prompt="cat", region="US")
        jobs = [
            NewJob(
                JobId(new_uuid()),
                owner,
                tier,
                self.config.tiers[tier].job_class,
                lane_at_submission(self.config.lanes, owner),
                admission.admit(body, 0),
            )
            for _ in range(count)
        ]
        await PostgresSubmissions(self.database, SystemClock(), 1_000_000).submit(jobs)
        return [job.id for job in jobs]

    async def queued(self, count: int = 1, **more: Any) -> list[JobId]:
        """Submitted and in Redis."""
        jobs = await self.submit(count, **more)
        await self.publish()
        return jobs

    async def publish(self) -> int:
        published = 0
        while (result := await self.publisher.run_once()).count:
            published += result.count
        return published

    async def job(self, job: JobId) -> Any:
        return await self.database.fetchrow("SELECT * FROM jobs WHERE id = $1", job)

    async def executions(self, job: JobId) -> list[Any]:
        return await self.database.fetch("SELECT * FROM executions WHERE job_id = $1 ORDER BY ordinal", job)

    async def ended(self, *jobs: JobId) -> list[str]:
        """Wait until all are terminal; their states."""

        async def all_ended() -> list[str]:
            rows = [await self.job(job) for job in jobs]
            return [row["state"] for row in rows] if all(row["finished_at"] for row in rows) else []

        return await until(all_ended, "all jobs are terminal")

    async def nothing_left(self) -> None:
        """Redis holds no message, and all counters are zero."""

        async def empty() -> bool:
            keys = {key async for key in self.transport.redis.scan_iter()}
            ours = {key for key in keys if key.startswith(("jobs", "queue:"))}
            return ours <= {"jobs:epoch", "jobs:open", "jobs:dead", "jobs:dead:ids"}

        await until(empty, "Redis is empty")

    @asynccontextmanager
    async def worker(self, executor: Any, claims: Any = None) -> AsyncIterator[None]:
        """A worker with a wake-up subscription; stopped in order at the end of the block."""
        services = build_worker(self.transport, claims or self.claims, executor)
        for service in services:
            await service.start()
        try:
            yield
        finally:
            for service in reversed(services):
                await service.stop()


def matrix(questions: int = 1, models: int = 1, regions: int = 1) -> MatrixJob:
    names = ["llama3.2-1b", "qwen2.5-1.5b", "mistral-7b"]
    return MatrixJob.model_validate(
        {
            "kind": "matrix",
            "questions": [{"id": f"q{number}", "prompt": "why?"} for number in range(questions)],
            "models": names[:models],
            "regions": ["US", "EU", "ASIA"][:regions],
        }
    )


def pipeline() -> PipelineJob:
    return PipelineJob(kind="pipeline", feature="text_only", input={"prompt": "a city"}, region="US")
