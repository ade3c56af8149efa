"""Why a job is not done yet, in one sentence and in facts."""

from dataclasses import dataclass
from datetime import datetime

from beacon_contracts.ids import encode_job_id
from beacon_contracts.jobs import JobState
from beacon_contracts.wait_reason import ExecutionWait, WhyView
from beacon_lifecycle import Clock
from beacon_redis import REDIS_ERRORS
from beacon_runner.application.jobs import JobService
from beacon_runner.domain.states import LIVE
from beacon_runner.ports.queue_admin import QueuePlace
from beacon_runner.postgres.job_queries import JobRecord

ASKED_AT_ROUTER = 20


@dataclass(frozen=True, slots=True)
class Explainer:
    jobs: JobService
    clock: Clock

    async def why(self, record: JobRecord) -> WhyView:
        """The reason in words and data, with the same place and wait that the job itself shows."""
        view, standing = await self._why(record), await self.jobs.standings.of(record)
        numbers = {"position": standing.position, "estimated_wait_s": standing.estimated_wait_s}
        return view.model_copy(update=numbers)

    async def _why(self, record: JobRecord) -> WhyView:
        head = record.head
        if head.state is JobState.PROCESSING:
            return await self._at_router(record)
        if record.waits_for_its_turn(self.clock.wall()):
            return await self._in_lane(record)
        if head.state in LIVE and record.next_attempt_at is not None:
            return self._postponed(record, record.next_attempt_at)
        return _view(record, f"It waits for nothing: it is {head.state}.")

    def _postponed(self, record: JobRecord, until: datetime) -> WhyView:
        seconds = max(0.0, (until - self.clock.wall()).total_seconds())
        reasons = []
        if record.head.failure is not None:
            reasons.append(f"Attempt {record.head.attempt - 1} failed: {record.head.failure.message}")
        return _view(record, f"It is tried again in {seconds:.0f} s.", reasons)

    async def _in_lane(self, record: JobRecord) -> WhyView:
        try:
            place = await self.jobs.queue.place(record.message)
            paused = (await self.jobs.queue.stats()).paused
        except REDIS_ERRORS:
            return _view(record, "It is queued; the queue does not answer now, so its place is not known.")
        if place is None:
            return _view(record, "It is on its way into or out of its queue; this takes a moment.")
        return _waiting_view(record, place, paused=place.job_class in paused)

    async def _at_router(self, record: JobRecord) -> WhyView:
        standings = self.jobs.standings
        unfinished = len(await standings.unfinished(record))
        waits = await standings.waits(record, ASKED_AT_ROUTER)
        reasons = [f"{wait.model} in {wait.region}: {wait.waiting_for or wait.state}" for wait in waits]
        view = _view(record, _router_summary(unfinished, waits), list(dict.fromkeys(reasons)))
        return view.model_copy(update={"executions": waits})


def _router_summary(unfinished: int, waits: list[ExecutionWait]) -> str:
    if not waits:
        return f"A worker has it; {unfinished} of its executions are not done, and none waits at the router."
    waiting = sum(wait.position is not None for wait in waits)
    if waiting == 0:
        return f"It runs: {len(waits)} of its executions are on GPUs now."
    return f"{waiting} of its executions wait at the router for a GPU."


def _waiting_view(record: JobRecord, place: QueuePlace, *, paused: bool) -> WhyView:
    reasons = [f"{_jobs_are(place.ahead_in_lane)} before it in its lane"]
    if place.active_lanes > 1:
        reasons.append(f"{place.active_lanes} lanes take turns")
    if place.front:
        reasons.append("it was paid for to go first")
    if paused:
        reasons.insert(0, f"an operator has paused class {place.job_class}")
        summary = f"Class {place.job_class} is paused; {_jobs_are(place.ahead)} ahead of it."
    elif place.ahead == 0:
        summary = f"It is next in class {place.job_class}, as soon as a worker is free."
    else:
        summary = f"{_jobs_are(place.ahead)} ahead of it in class {place.job_class}."
    found = {"priority": place.job_class, "lane": place.lane, "jobs_ahead": place.ahead, "paused": paused}
    return _view(record, summary, reasons).model_copy(update=found)


def _jobs_are(count: int) -> str:
    return {0: "no job is", 1: "1 job is"}.get(count, f"{count} jobs are")


def _view(record: JobRecord, summary: str, reasons: list[str] | None = None) -> WhyView:
    return WhyView(
        job_id=encode_job_id(record.head.id),
        status=record.head.state,
        summary=summary,
        reasons=reasons or [],
        priority=record.head.job_class,
        lane=record.lane or None,
    )
