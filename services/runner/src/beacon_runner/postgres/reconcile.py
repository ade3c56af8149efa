"""Live jobs for the loops that keep Redis in line with the truth, and the removal of what is old."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from beacon_config.limits import RetentionConfig
from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.lanes import lane_of
from beacon_runner.domain.messages import Message
from beacon_runner.ports.reconcile import LiveMessage
from beacon_runner.ports.retention import Swept
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

_SQL = statements("live")
_SWEEP = statements("sweep")


class PostgresReconcile:
    """What Postgres believes is in Redis."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def live_page(
        self, after: LiveMessage | None, limit: int, *, also_unpublished: bool = False
    ) -> Sequence[LiveMessage]:
        place = _place(after) if after is not None else (None, None, None)
        rows = await self._database.fetch(_SQL["live_page"], *place, limit, also_unpublished)
        return [_live(row) for row in rows]

    async def republish(self, messages: Sequence[Message]) -> int:
        jobs, generations = (
            [message.job for message in messages],
            [message.generation for message in messages],
        )
        return int(await self._database.fetchval(_SQL["republish"], jobs, generations))

    async def oldest_s(self) -> Mapping[JobClass, float]:
        rows = await self._database.fetch(_SQL["oldest"], list(JobClass))
        return {JobClass(row["class"]): row["oldest_s"] for row in rows}

    async def dead_page(self, after: JobId | None, limit: int) -> Sequence[tuple[JobId, int]]:
        rows = await self._database.fetch(_SQL["dead_index"], after, limit)
        return [(JobId(row["job_id"]), row["generation"]) for row in rows]

    async def republish_dead(self, jobs: Sequence[JobId]) -> int:
        return int(await self._database.fetchval(_SQL["republish_dead"], jobs))

    async def promote(self, source: JobClass, target: JobClass, waited_s: float, limit: int) -> int:
        return int(await self._database.fetchval(_SQL["promote"], source, target, waited_s, limit))


class PostgresRetention:
    """Old things, removed in bounded steps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def sweep(self, retention: RetentionConfig, limit: int) -> Swept:
        jobs = await self._forget("forget_jobs", retention.jobs_s, limit)
        events = await self._forget("forget_events", retention.events_s, limit)
        keys = await self._forget("forget_keys", retention.idempotency_s, limit)
        return Swept(events, keys, jobs, more=limit in (jobs, events, keys))

    async def _forget(self, statement: str, age_s: float, limit: int) -> int:
        done = await self._database.execute(_SWEEP[statement], age_s, limit)
        return int(done.split()[-1])


def _place(live: LiveMessage) -> tuple[JobClass, datetime | None, JobId]:
    return live.message.job_class, live.queued_at, live.message.job


def _live(row: Any) -> LiveMessage:
    return LiveMessage(_message(row), row["retry_at"], row["processing"], row["front"], row["queued_at"])


def _message(row: Any) -> Message:
    return Message(
        JobId(row["id"]),
        row["generation"],
        row["stage"],
        row["attempt"],
        JobClass(row["class"]),
        lane_of(row["lane"], row["user_id"]),
    )
