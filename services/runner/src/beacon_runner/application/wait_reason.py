"""Why a job has not ended yet: one sentence, and the facts behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from beacon_contracts.ids import JobId, UserId, encode_job_id
from beacon_contracts.jobs import JobState
from beacon_contracts.router_status import STARTING
from beacon_contracts.wait_reason import ExecutionWait, WhyView
from beacon_lifecycle import Clock
from beacon_runner.application.jobs import JobService
from beacon_runner.domain.errors import QueueUnavailableError
from beacon_runner.domain.execution.plan import first_target
from beacon_runner.domain.jobs.records import JobRecord
from beacon_runner.domain.jobs.states import LIVE
from beacon_runner.ports.queue_admin import QueuePlace
from beacon_runner.ports.router import RouterStatus

MAX_ROUTER_LOOKUPS = 20


@dataclass(frozen=True, slots=True)
class WaitReasonService:
    jobs: JobService
    clock: Clock

    async def why(self, job: JobId, owner: UserId | None) -> WhyView:
        """With the same position and wait as the job itself."""
        record = await self.jobs.get(job, owner)
        view, current = await self._reason(record), await self.jobs.positions.of(record)
        numbers = {"position": current.position, "estimated_wait_s": current.estimated_wait_s}
        return view.model_copy(update=numbers)

    async def _reason(self, job: JobRecord) -> WhyView:
        if job.held and job.state in LIVE:
            return _view(job, "The job is held until its user is enabled again.")
        if job.claimed:
            return await self._at_router(job)
        if job.in_queue:
            return await self._in_lane(job)
        if job.state is JobState.SCHEDULED and not job.in_queue:
            return _view(job, self._scheduled(job))
        if job.state in LIVE and job.next_attempt_at is not None:
            return await self._deferred(job, job.next_attempt_at)
        return _view(job, f"The job does not wait: it is {job.state}.")

    def _scheduled(self, job: JobRecord) -> str:
        if job.next_attempt_at is None:
            return "The job starts when a limit of its user allows it."
        seconds = max(0.0, (job.next_attempt_at - self.clock.wall()).total_seconds())
        return f"The job is scheduled to start in {seconds:.0f} s."

    async def _deferred(self, job: JobRecord, until: datetime) -> WhyView:
        seconds = max(0.0, (until - self.clock.wall()).total_seconds())
        reasons = []
        if job.head.failure is not None:
            reasons.append(f"Attempt {job.head.attempt - 1} failed: {job.head.failure.message}")
        reasons += _unavailable(
            first_target(job.spec, job.head.stage)[0], await self.jobs.positions.router.status()
        )
        return _view(job, f"The next attempt starts in {seconds:.0f} s.", reasons)

    async def _in_lane(self, job: JobRecord) -> WhyView:
        try:
            place = await self.jobs.queue.place(job.message)
            paused = (await self.jobs.queue.stats()).paused
        except QueueUnavailableError:
            return _view(job, "The job is queued; its position is unknown while Redis is unavailable.")
        if place is None:
            return _view(job, "The job is being moved into or out of its queue.")
        return _queued_view(job, place, paused=place.job_class in paused)

    async def _at_router(self, job: JobRecord) -> WhyView:
        unfinished = len(await self.jobs.positions.unfinished(job))
        waits = await self.jobs.positions.router_waits(job, MAX_ROUTER_LOOKUPS)
        reasons = [f"{wait.model} in {wait.region}: {wait.waiting_for or wait.state}" for wait in waits]
        view = _view(job, _router_summary(unfinished, waits), list(dict.fromkeys(reasons)))
        return view.model_copy(update={"executions": waits})


def _unavailable(model: str, routers: Sequence[RouterStatus]) -> list[str]:
    """The backends of the model that take no work, each with its cause."""
    found = [
        f"backend {backend.name} in {region.region} is starting"
        if backend.breaker.state == STARTING
        else f"backend {backend.name} in {region.region} is not available: {backend.breaker.cause}"
        for router in routers
        if router.queues is not None
        for region in router.queues.regions.values()
        for backend in region.backends
        if model in backend.models and backend.breaker.cause
    ]
    return list(dict.fromkeys(found))


def _router_summary(unfinished: int, waits: list[ExecutionWait]) -> str:
    if not waits:
        return f"A worker holds the job; {unfinished} executions are unfinished, none waits at the router."
    waiting = sum(wait.position is not None for wait in waits)
    if waiting == 0:
        return f"The job runs: {len(waits)} of its executions are on GPUs."
    return f"{waiting} of its executions wait at the router for a GPU."


def _queued_view(job: JobRecord, place: QueuePlace, *, paused: bool) -> WhyView:
    reasons = [f"{_jobs_are(place.ahead_in_lane)} ahead in its lane"]
    if place.active_lanes > 1:
        reasons.append(f"{place.active_lanes} lanes are served round-robin")
    if place.front:
        reasons.append("a skip was paid: it is in the front queue")
    if paused:
        reasons.insert(0, f"an operator has paused class {place.job_class}")
        summary = f"Class {place.job_class} is paused; {_jobs_are(place.ahead)} ahead."
    elif place.ahead == 0:
        summary = f"The job is next in class {place.job_class}, as soon as a worker is free."
    else:
        summary = f"{_jobs_are(place.ahead)} ahead in class {place.job_class}."
    found = {"priority": place.job_class, "lane": place.lane, "jobs_ahead": place.ahead, "paused": paused}
    return _view(job, summary, reasons).model_copy(update=found)


def _jobs_are(count: int) -> str:
    return {0: "no job is", 1: "1 job is"}.get(count, f"{count} jobs are")


def _view(job: JobRecord, summary: str, reasons: list[str] | None = None) -> WhyView:
    return WhyView(
        job_id=encode_job_id(job.id),
        status=job.state,
        summary=summary,
        reasons=reasons or [],
        priority=job.head.job_class,
        lane=job.lane or None,
    )
