"""Live jobs, for the loops that compare Redis with Postgres."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.queue.messages import Message
from beacon_runner.ports.reconcile import LiveMessage
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.jobs.outbox import message_of
from beacon_runner.postgres.statements import statements

_SQL = statements("reconcile")


class PostgresReconcile:
    """What Redis should hold, according to Postgres."""

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


def _place(live: LiveMessage) -> tuple[JobClass, datetime | None, JobId]:
    return live.message.job_class, live.queued_at, live.message.job


def _live(row: Any) -> LiveMessage:
    return LiveMessage(message_of(row), row["retry_at"], row["claimed"], row["front"], row["queued_at"])
