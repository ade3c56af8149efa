"""Reads jobs, executions and events."""

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any

import orjson

from beacon_contracts.events import EventType
from beacon_contracts.failures import Failure
from beacon_contracts.ids import JobId, UserId, encode_execution_id
from beacon_contracts.inference import RunProgress, Timing
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.execution.plan import ExecutionKey
from beacon_runner.domain.jobs.job_filter import JobFilter
from beacon_runner.domain.jobs.records import (
    AttemptRecord,
    EventRecord,
    ExecutionPart,
    ExecutionPlace,
    ExecutionRecord,
    JobHead,
    JobHeads,
    JobRecord,
    LiveCount,
    LiveJob,
    SentExecutions,
)
from beacon_runner.domain.queue.lanes import lane_of
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.jobs.job_pages import fetch_page
from beacon_runner.postgres.statements import statements

_SQL = statements("job_queries")
MAX_PAGE_BYTES = 4_194_304  # of stored outputs in one answer; the database compresses them


class PostgresJobQueries:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def job(self, job: JobId) -> JobRecord | None:
        row = await self._database.fetchrow(_SQL["job"], job)
        return None if row is None else _record(row)

    async def executions(self, job: JobId, keys: Sequence[ExecutionKey], *, outputs: bool) -> ExecutionPart:
        columns = [[getattr(key, name) for key in keys] for name in ("stage", "item", "model", "region")]
        rows = await self._database.fetch(_SQL["executions"], job, *columns, outputs, MAX_PAGE_BYTES)
        fitting = [_execution(row) for row in takewhile(lambda row: not row["beyond"], rows)]
        beyond = [ExecutionPlace(row["stage"], row["ordinal"]) for row in rows[len(fitting) :][:1]]
        return ExecutionPart(fitting, beyond[0] if beyond else None)

    async def ended_executions(self, job: JobId, stage: int) -> set[int]:
        return {row["ordinal"] for row in await self._database.fetch(_SQL["ended_executions"], job, stage)}

    async def sent_executions(self, job: JobId) -> SentExecutions:
        (row,) = await self._database.fetch(_SQL["sent_executions"], job)
        return SentExecutions(row["queued"], row["running"], row["percent"])

    async def execution(self, job: JobId, stage: int, ordinal: int) -> ExecutionRecord | None:
        row = await self._database.fetchrow(_SQL["execution"], job, stage, ordinal)
        return None if row is None else _execution(row)

    async def attempts(self, job: JobId, stage: int, ordinal: int) -> list[AttemptRecord]:
        return [_attempt(row) for row in await self._database.fetch(_SQL["attempts"], job, stage, ordinal)]

    async def page(self, wanted: JobFilter, *, after: JobId | None = None, limit: int) -> JobHeads:
        found = await fetch_page(self._database, wanted, after, limit)
        return JobHeads([_head(row) for row in found.rows], found.next)

    async def events(self, job: JobRecord, after: int, limit: int) -> list[EventRecord]:
        """Events with numbers above `after`, from at most `limit` rows."""
        rows = await self._database.fetch(_SQL["events"], job.head.id, after, limit)
        return [event for row in rows for event in _events(job.id, row) if event.seq > after]

    async def live_jobs(self, jobs: Sequence[JobId]) -> list[LiveJob]:
        """Those of the jobs that are live, in no order."""
        rows = await self._database.fetch(_SQL["live_jobs"], jobs)
        return [
            LiveJob(job, user, name, JobState(state), tier, *rest)
            for job, user, name, state, tier, *rest in rows
        ]

    async def counts(self) -> list[LiveCount]:
        rows = await self._database.fetch(_SQL["counts"])
        return [
            LiveCount(JobState(row["state"]), JobClass(row["class"]), row["jobs"], row["oldest_s"])
            for row in rows
        ]

    async def version(self) -> str | None:
        """The revision of the database schema; raises when Postgres does not answer or its disk is full."""
        self._database.check_disk()
        found: str | None = await self._database.fetchval(_SQL["version"])
        return found


def _head(row: Any) -> JobHead:
    labels = {} if row["labels"] is None else orjson.loads(row["labels"])
    return JobHead(
        JobId(row["id"]),
        UserId(row["user_id"]),
        row["kind"],
        row["name"],
        JobState(row["state"]),
        row["tier"],
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
        tuple(labels.get("tags", ())),
        labels.get("metadata", {}),
        row["not_before"],
        row["expires_at"],
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
        row["deferred"],
        row["promoted_at"],
        row["held"],
        row["scheduled"],
        row["claimed"],
        row["webhook"],
    )


def _execution(row: Any) -> ExecutionRecord:
    tokens = None if row["tokens_in"] is None else (row["tokens_in"], row["tokens_out"])
    progress = None if row["progress"] is None else RunProgress(**row["progress"], preview=row["preview"])
    return ExecutionRecord(
        row["stage"],
        row["ordinal"],
        row["output"],
        _attempt(row),
        row["retries"],
        row["response"],
        tokens,
        progress,
    )


def _attempt(row: Any) -> AttemptRecord:
    return AttemptRecord(
        row["attempt"],
        ExecutionState(row["state"]),
        row["actual_region"],
        row["backend"],
        _failure(row),
        row["started_at"],
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


def _events(job: JobId, row: Any) -> list[EventRecord]:
    first = row["seq"] - len(row["events"]) + 1
    return [
        EventRecord(
            first + place,
            EventType(event["type"]),
            datetime.fromisoformat(event["at"]) if "at" in event else row["at"],
            _progress_data(job, **event["data"])
            if event["type"] == EventType.EXECUTION_PROGRESS
            else event["data"],
        )
        for place, event in enumerate(row["events"])
    ]


def _progress_data(job: JobId, *, stage: int, ordinal: int, **data: Any) -> dict[str, Any]:
    return {"execution_id": encode_execution_id(job, stage, ordinal), **data}
