"""The position of a live job and its estimated wait: in the runner's queue, or at the router."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from beacon_contracts.ids import encode_execution_id
from beacon_contracts.inference import InferenceState, InferenceView
from beacon_contracts.jobs import JobState
from beacon_contracts.wait_reason import ExecutionWait
from beacon_lifecycle import Clock
from beacon_runner.application.wait_estimator import WaitEstimator
from beacon_runner.domain.execution.plan import ExecutionKey, unfinished
from beacon_runner.domain.jobs.records import JobRecord
from beacon_runner.domain.jobs.states import LIVE
from beacon_runner.ports.jobs import JobQueries
from beacon_runner.ports.router import RouterPort

MAX_ROUTER_LOOKUPS = 4
ROUTER_TIMEOUT_S = 2.0
WAITS_FOR_LIMIT = "the job starts when a limit of its user allows it"
WAITING_AT_ROUTER = frozenset({InferenceState.QUEUED, InferenceState.BACKOFF})


@dataclass(frozen=True, slots=True)
class JobPosition:
    """`position` 1 is next; None when the job does not wait in a queue.

    `at`: queue, router, retry or schedule.
    `no_estimate_reason` is set when the job waits and there is no estimate of its wait.
    """

    position: int | None = None
    estimated_wait_s: float | None = None
    at: str | None = None
    waiting_for: str | None = None
    no_estimate_reason: str | None = None

    @property
    def waits_at_router(self) -> bool:
        return self.at == "router" and self.position is not None


@dataclass(frozen=True, slots=True)
class PositionService:
    estimator: WaitEstimator
    router: RouterPort
    queries: JobQueries
    clock: Clock

    async def of(self, job: JobRecord) -> JobPosition:
        if job.claimed:
            return _at_router(await self.router_waits(job, MAX_ROUTER_LOOKUPS))
        if job.in_queue:
            found = await self.estimator.of_queued(job)
            return JobPosition(found.position, found.wait_s, "queue", no_estimate_reason=found.reason)
        if job.held and job.state in LIVE:
            return JobPosition(no_estimate_reason="the job is held until its user is enabled again")
        if job.waits_for_limit:
            return JobPosition(no_estimate_reason=WAITS_FOR_LIMIT)
        if job.next_attempt_at is not None and job.state in LIVE:
            wait_s = round((job.next_attempt_at - self.clock.wall()).total_seconds(), 2)
            at = "schedule" if job.state is JobState.SCHEDULED else "retry"
            return JobPosition(estimated_wait_s=wait_s, at=at)
        return JobPosition()

    async def router_waits(self, job: JobRecord, limit: int) -> list[ExecutionWait]:
        """The state at the router of the first unfinished executions; empty when no router answers."""
        try:
            async with asyncio.timeout(ROUTER_TIMEOUT_S):
                executions = (await self.unfinished(job))[:limit]
                found = await asyncio.gather(*(self._find(job, one) for one in executions))
        except TimeoutError:
            return []
        return [wait for wait in found if wait is not None]

    async def unfinished(self, job: JobRecord) -> list[ExecutionKey]:
        """The executions of the current stage that have not ended."""
        stage = job.head.stage
        return unfinished(job.spec, stage, set(await self.queries.ended_executions(job.id, stage)))

    async def _find(self, job: JobRecord, execution: ExecutionKey) -> ExecutionWait | None:
        request_id = encode_execution_id(job.id, execution.stage, execution.ordinal)
        found = await self.router.find(request_id, execution.region)
        return None if found is None or found.state.terminal else _wait(request_id, execution, found)


def _at_router(waits: Sequence[ExecutionWait]) -> JobPosition:
    """The job waits if all executions that were looked up wait; the first of them gives the position."""
    if not waits:
        return JobPosition(no_estimate_reason="no router reports its executions")
    waiting = [wait for wait in waits if wait.state in WAITING_AT_ROUTER]
    if len(waiting) < len(waits):
        return JobPosition(estimated_wait_s=0.0, at="router")
    first = min(waiting, key=lambda wait: wait.position if wait.position is not None else 1 << 30)
    eta_s = None if first.eta is None else round(first.eta.p50_s, 2)
    waiting_for = first.waiting_for or f"{first.model} in {first.region}"
    reason = waiting_for if eta_s is None else None
    return JobPosition(first.position, eta_s, "router", waiting_for, reason)


def _wait(request_id: str, execution: ExecutionKey, found: InferenceView) -> ExecutionWait:
    return ExecutionWait(
        execution_id=request_id,
        model=execution.model,
        region=execution.region,
        state=found.state,
        position=found.position,
        eta=found.eta,
        waiting_for=found.waiting_for,
    )
