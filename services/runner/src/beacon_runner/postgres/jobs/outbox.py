"""Messages on their way to Redis."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from operator import itemgetter
from typing import Any

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.jobs.job_ids import batch_of
from beacon_runner.domain.queue.lanes import UNCHOSEN, lane_of
from beacon_runner.domain.queue.messages import Message, OutboxEntry, Topic
from beacon_runner.ports.outbox import OutboxLag
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

_SQL = statements("outbox")
_COUNTED = 100_000


class PostgresOutbox:
    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def take(self, limit: int) -> AsyncIterator[Sequence[OutboxEntry]]:
        """Up to `limit` entries, oldest first; gone when the block ends well, back when it does not."""
        async with self._database.transaction() as connection:
            rows = await connection.fetch(_SQL["take"], limit)
            yield [_entry(row) for row in sorted(rows, key=itemgetter("id"))]

    async def delete(self, rows: Sequence[int]) -> None:
        await self._database.execute(_SQL["delete"], rows)

    async def lag(self) -> OutboxLag:
        row = await self._database.fetchrow(_SQL["lag"], _COUNTED)
        return OutboxLag(row["waiting"], row["oldest_s"] or 0.0) if row else OutboxLag(0, 0.0)


def _entry(row: Any) -> OutboxEntry:
    number, topic, job, user, generation, stage, attempt, job_class, lane, front, batch, due = row.values()
    message = Message(JobId(job), generation, stage, attempt, JobClass(job_class), lane_of(lane, user))
    unchosen = batch_of(job) if batch and lane == UNCHOSEN else None  # only the choice of a lane asks for it
    return OutboxEntry(Topic(topic), message, due, front, unchosen, number)


def message_of(row: Any) -> Message:
    """The newest message of a job's row."""
    return Message(
        JobId(row["id"]),
        row["generation"],
        row["stage"],
        row["attempt"],
        JobClass(row["class"]),
        lane_of(row["lane"], row["user_id"]),
    )
