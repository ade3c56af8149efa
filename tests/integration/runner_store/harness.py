"""A store on its own database, with functions that bring jobs into every state."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beacon_config import load_config
from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.ids import JobId, UserId, new_uuid
from beacon_contracts.inference import Timing
from beacon_contracts.jobs import ExecutionState
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import SystemClock
from beacon_runner.application.jobs import JobService
from beacon_runner.domain.execution.plan import execution_keys, pending_executions, stage_plan
from beacon_runner.domain.execution.retry_policy import RetryPolicy
from beacon_runner.domain.execution.stage_result import ClaimedJob, ExecutionReport, StageReport
from beacon_runner.domain.execution.verdict import decide
from beacon_runner.domain.jobs.admission import AdmittedJob
from beacon_runner.domain.jobs.records import ExecutionRecord, JobRecord
from beacon_runner.domain.jobs.submissions import NewJob
from beacon_runner.domain.queue.messages import Message, OutboxEntry
from beacon_runner.ports.cancels import RouterCancel
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.jobs.cancels import PostgresCancels
from beacon_runner.postgres.jobs.claims import PostgresClaims
from beacon_runner.postgres.jobs.dead_letters import PostgresDeadLetters
from beacon_runner.postgres.jobs.job_commands import PostgresJobCommands
from beacon_runner.postgres.jobs.job_queries import PostgresJobQueries
from beacon_runner.postgres.jobs.outbox import PostgresOutbox
from beacon_runner.postgres.jobs.reconcile import PostgresReconcile
from beacon_runner.postgres.jobs.retention import PostgresRetention
from beacon_runner.postgres.jobs.submissions import PostgresSubmissions
from tests.fixtures.job_service import JobCommandsHarness

CONFIG = load_config(Path(__file__).parents[3] / "config" / "beacon.toml", {})
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
USER = UserId(new_uuid())
POLICY = RetryPolicy()
MAX_DELIVERIES = 3

GENERATION = AdmittedJob(
    "generation", "", {"model": "flux", "region": "US", "input": {"prompt": "cat"}}, 1, 1
)
MATRIX = AdmittedJob(
    "matrix",
    "bias",
    {
        "questions": [{"id": "q1", "prompt": "why?"}, {"id": "q2", "prompt": "how?"}],
        "targets": [["llama", ["US", "EU"]]],
    },
    1,
    4,
)
PIPELINE = AdmittedJob(
    "pipeline",
    "",
    {
        "input": {"prompt": "city"},
        "steps": [
            {
                "name": "enhance",
                "model": "enhance",
                "region": "US",
                "attempts": 3,
                "input": {"prompt": "{{ input.prompt }}"},
            },
            {
                "name": "draw",
                "model": "draw",
                "region": "EU",
                "attempts": 3,
                "input": {"prompt": "{{ enhance.text }}"},
            },
        ],
    },
    2,
    2,
)


@dataclass(frozen=True)
class StoreHarness:
    database: Database

    @property
    def claims(self) -> PostgresClaims:
        return PostgresClaims(self.database)

    @property
    def submissions(self) -> PostgresSubmissions:
        return PostgresSubmissions(self.database, SystemClock(), 1_000_000)

    @property
    def commands(self) -> PostgresJobCommands:
        return PostgresJobCommands(self.database, max_router_cancels=64)

    @property
    def jobs(self) -> JobService:
        return JobCommandsHarness(self.database).service(CONFIG)

    async def cancel(self, job: JobId, owner: UserId | None = None) -> list[RouterCancel]:
        """The cancels that would be sent to the routers."""
        harness = JobCommandsHarness(self.database)
        await harness.service(CONFIG).cancel(job, owner)
        return harness.cancelled

    @property
    def dead_letters(self) -> PostgresDeadLetters:
        return PostgresDeadLetters(self.database)

    @property
    def live(self) -> PostgresReconcile:
        return PostgresReconcile(self.database)

    @property
    def retention(self) -> PostgresRetention:
        return PostgresRetention(self.database)

    @property
    def cancels(self) -> PostgresCancels:
        return PostgresCancels(self.database, max_executions=64)

    @property
    def queries(self) -> PostgresJobQueries:
        return PostgresJobQueries(self.database)

    @property
    def outbox(self) -> PostgresOutbox:
        return PostgresOutbox(self.database)

    async def submit(self, admitted: AdmittedJob = GENERATION, **more: Any) -> JobId:
        job = new_job(admitted, **more)
        await self.submissions.submit([job])
        return job.id

    async def published(self, limit: int = 1000) -> list[OutboxEntry]:
        """The entries that the publisher would push now; the outbox is empty afterwards."""
        async with self.outbox.take(limit) as entries:
            return list(entries)

    async def messages(self) -> list[Message]:
        return [entry.message for entry in await self.published()]

    async def claim(self, worker: str = "w1") -> ClaimedJob:
        (job,) = await self.claims.claim(await self.messages(), worker)
        return job

    async def start(self, claimed: ClaimedJob) -> ClaimedJob:
        """Record that the first execution of a claimed job is on a GPU."""
        first = stage_plan(claimed.spec, claimed.stage, claimed.context)[0]
        running = ExecutionReport(first, ExecutionState.RUNNING, 1, started_at=NOW.timestamp())
        assert await self.claims.record([StageReport(claimed, (running,))]) == {claimed.id}
        return claimed

    async def job(self, job: JobId) -> JobRecord:
        record = await self.queries.job(job)
        assert record is not None
        return record

    async def executions(self, job: JobId) -> dict[int, ExecutionRecord]:
        keys = list(execution_keys((await self.job(job)).spec))
        found = await self.queries.executions(job, keys, outputs=True)
        return {one.ordinal + 100 * one.stage: one for one in found.recorded}

    async def events(self, job: JobId) -> list[str]:
        return [str(event.type) for event in await self.queries.events(await self.job(job), 0, 1000)]

    async def run(self, claimed: ClaimedJob, *outcomes: str) -> StageReport:
        """Run pending executions with these outcomes, decide, and record all in one report."""
        report = judged(claimed, *outcomes)
        assert await self.claims.record([report]) == {claimed.id}
        return report

    async def dead(self, admitted: AdmittedJob = MATRIX, *outcomes: str) -> JobId:
        """A dead job with these outcomes, after its retries."""
        job = await self.submit(admitted)
        for _ in range(POLICY.retries + 1):
            claimed = await self.claim()
            plan = stage_plan(claimed.spec, claimed.stage, claimed.context)
            left = pending_executions(plan, claimed.recorded_executions)
            await self.run(claimed, *(outcomes[one.execution.ordinal] for one in left))
            if (await self.job(job)).head.finished_at is not None:
                await self.published()
                return job
        raise AssertionError(f"{job} is still alive")


def new_job(admitted: AdmittedJob = GENERATION, **more: Any) -> NewJob:
    fields: dict[str, Any] = {
        "id": JobId(new_uuid()),
        "user": USER,
        "tier": "free",
        "job_class": JobClass.LOW,
        "lane": more.get("user", USER).hex,
        "admitted": admitted,
    }
    return NewJob(**fields | more)


def failure(*, retryable: bool) -> Failure:
    return Failure(
        code="busy" if retryable else "refused",
        stage=FailureStage.RUN,
        retryable=retryable,
        message="it broke",
    )


def report_of(execution: Any, attempt: int, outcome: str) -> ExecutionReport:
    """An outcome is `later`, `never`, or the output of the model."""
    if outcome in ("later", "never"):
        found = failure(retryable=outcome == "later")
        return ExecutionReport(
            execution,
            ExecutionState.FAILED,
            attempt,
            failure=found,
            started_at=NOW.timestamp(),
            finished_at=NOW.timestamp(),
        )
    return ExecutionReport(
        execution,
        ExecutionState.COMPLETED,
        attempt,
        {"text": outcome},
        actual_region=execution.region,
        backend=f"{execution.region.lower()}-1",
        timing=Timing(queued_s=0.5, load_s=0.0, run_s=1.25),
        started_at=NOW.timestamp(),
        finished_at=NOW.timestamp(),
    )


def run_reports(claimed: ClaimedJob, outcomes: Sequence[str]) -> tuple[ExecutionReport, ...]:
    plan = stage_plan(claimed.spec, claimed.stage, claimed.context)
    todo = pending_executions(plan, claimed.recorded_executions)
    return tuple(
        report_of(one.execution, one.attempt, outcome) for one, outcome in zip(todo, outcomes, strict=True)
    )


def judged(claimed: ClaimedJob, *outcomes: str) -> StageReport:
    plan = stage_plan(claimed.spec, claimed.stage, claimed.context)
    reports = run_reports(claimed, outcomes)
    return StageReport(claimed, reports, verdict=decide(claimed, plan, reports, POLICY, 0.0))
