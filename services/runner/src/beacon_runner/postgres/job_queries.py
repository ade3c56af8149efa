"""Reading jobs, executions and events: one query per table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from beacon_contracts.events import EventType
from beacon_contracts.failures import Failure
from beacon_contracts.ids import JobId, UserId
from beacon_contracts.inference import Timing
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_contracts.tiers import JobClass, Tier
from beacon_runner.domain.lanes import lane_of
from beacon_runner.domain.messages import Message
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

_SQL = statements("read")


@dataclass(frozen=True, slots=True)
class JobHead:
    """A job as a list shows it."""

    id: JobId
    user: UserId
    kind: str
    name: str
    state: JobState
    tier: Tier
    job_class: JobClass
    stage: int
    stages: int
    attempt: int
    total: int
    completed: int
    failed: int
    cancelled: int
    failure: Failure | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job with all that its row holds."""

    head: JobHead
    spec: Mapping[str, Any]
    context: Mapping[str, Any]
    original_class: JobClass
    lane: str
    front: bool
    generation: int
    fence: int
    event_seq: int
    price_paid: int
    next_attempt_at: datetime | None
    promoted_at: datetime | None

    @property
    def message(self) -> Message:
        head = self.head
        return Message(head.id, self.generation, head.stage, head.attempt, head.job_class, self.lane)

    def waits_for_its_turn(self, now: datetime) -> bool:
        """In a lane or in front; not while it waits for the moment of its next attempt."""
        return self.head.state in (JobState.QUEUED, JobState.RETRYING) and not self.is_postponed(now)

    def is_postponed(self, now: datetime) -> bool:
        return self.next_attempt_at is not None and self.next_attempt_at > now


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    attempt: int
    state: ExecutionState
    actual_region: str | None
    backend: str | None
    failure: Failure | None
    started_at: datetime | None
    finished_at: datetime | None
    timing: Timing | None


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    stage: int
    ordinal: int
    output: Any
    newest: AttemptRecord


@dataclass(frozen=True, slots=True)
class EventRecord:
    seq: int
    type: EventType
    at: datetime
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LiveCount:
    state: JobState
    job_class: JobClass
    jobs: int
    oldest_s: float


@dataclass(frozen=True, slots=True)
class LiveJob:
    """What a list of the queue shows; `model` is the one that it needs now, or its first."""

    id: JobId
    user: UserId
    name: str
    state: JobState
    tier: Tier
    total: int
    over: int
    model: str
    duration_s: float | None


class Reader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def job(self, job: JobId) -> JobRecord | None:
        row = await self._database.fetchrow(_SQL["job"], job)
        return None if row is None else _record(row)

    async def executions(self, job: JobId) -> list[ExecutionRecord]:
        return [_execution(row) for row in await self._database.fetch(_SQL["executions"], job)]

    async def execution(self, job: JobId, stage: int, ordinal: int) -> ExecutionRecord | None:
        row = await self._database.fetchrow(_SQL["execution"], job, stage, ordinal)
        return None if row is None else _execution(row)

    async def attempts(self, job: JobId, stage: int, ordinal: int) -> list[AttemptRecord]:
        return [_attempt(row) for row in await self._database.fetch(_SQL["attempts"], job, stage, ordinal)]

    async def page(
        self,
        user: UserId | None,
        *,
        after: JobId | None,
        states: Sequence[JobState] | None,
        kind: str | None,
        limit: int,
    ) -> list[JobHead]:
        """Newest first; everybody's when `user` is None."""
        if user is None:
            rows = await self._database.fetch(_SQL["page_of_all"], after, states, kind, limit)
        elif not states:
            rows = await self._database.fetch(_SQL["page"], user, after, kind, limit)
        else:
            rows = await self._database.fetch(_SQL["page_in_states"], user, after, states, kind, limit)
        return [_head(row) for row in rows]

    async def events(self, job: JobRecord, after: int, limit: int) -> list[EventRecord]:
        """Those with numbers above `after`, at most `limit` rows of them."""
        rows = await self._database.fetch(_SQL["events"], job.head.id, after, limit)
        return [event for row in rows for event in _events(row) if event.seq > after]

    async def live_jobs(self, jobs: Sequence[JobId]) -> list[LiveJob]:
        """Those of the jobs that live, in no order."""
        rows = await self._database.fetch(_SQL["live_jobs"], jobs)
        return [
            LiveJob(job, user, name, JobState(state), Tier(tier), *rest)
            for job, user, name, state, tier, *rest in rows
        ]

    async def counts(self) -> list[LiveCount]:
        rows = await self._database.fetch(_SQL["counts"])
        return [
            LiveCount(JobState(row["state"]), JobClass(row["class"]), row["jobs"], row["oldest_s"])
            for row in rows
        ]

    async def version(self) -> str | None:
        """The database's migration; raises when Postgres does not answer."""
        found: str | None = await self._database.fetchval(_SQL["version"])
        return found


def _head(row: Any) -> JobHead:
    return JobHead(
        JobId(row["id"]),
        UserId(row["user_id"]),
        row["kind"],
        row["name"],
        JobState(row["state"]),
        Tier(row["tier"]),
        JobClass(row["class"]),
        row["stage"],
        row["stages"],
        row["attempt"],
        row["total"],
        row["completed"],
        row["failed"],
        row["cancelled"],
        _failure(row),
        row["created_at"],
        row["started_at"],
        row["finished_at"],
    )


def _record(row: Any) -> JobRecord:
    return JobRecord(
        _head(row),
        row["spec"],
        row["context"] or {},
        JobClass(row["original_class"]),
        lane_of(row["lane"], row["user_id"]),
        row["front"],
        row["generation"],
        row["fence"],
        row["event_seq"],
        row["price_paid"],
        row["next_attempt_at"],
        row["promoted_at"],
    )


def _execution(row: Any) -> ExecutionRecord:
    return ExecutionRecord(row["stage"], row["ordinal"], row["output"], _attempt(row))


def _attempt(row: Any) -> AttemptRecord:
    state = ExecutionState(row["state"])
    return AttemptRecord(
        row["attempt"],
        state,
        row["actual_region"],
        row["backend"],
        _failure(row),
        None if state is ExecutionState.PENDING else row["started_at"],
        row["finished_at"],
        _timing(row),
    )


def _failure(row: Any) -> Failure | None:
    return None if row["failure"] is None else Failure.model_validate(row["failure"])


def _timing(row: Any) -> Timing | None:
    if row["queued_s"] is None:
        return None
    seconds = (round(row[name], 6) for name in ("queued_s", "load_s", "run_s"))
    return Timing(**dict(zip(("queued_s", "load_s", "run_s"), seconds, strict=True)))


def _events(row: Any) -> list[EventRecord]:
    first = row["seq"] - len(row["events"]) + 1
    return [
        EventRecord(
            first + place,
            EventType(event["type"]),
            datetime.fromisoformat(event["at"]) if "at" in event else row["at"],
            event["data"],
        )
        for place, event in enumerate(row["events"])
    ]
