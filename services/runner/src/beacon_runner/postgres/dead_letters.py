"""Dead letters: jobs that nothing will try again by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from beacon_contracts.events import EventType
from beacon_contracts.failures import Failure
from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.stage_result import EventDraft
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.report_params import encode_events
from beacon_runner.postgres.statements import statements

_SQL = statements("dead")
_CONTROL = statements("control")
_RECORD = statements("record")
STEP = 500


@dataclass(frozen=True, slots=True)
class DeadLetter:
    job: JobId
    user: UserId
    kind: str
    name: str
    state: JobState
    job_class: JobClass
    stage: int
    attempt: int
    reason: str
    failure: Failure
    died_at: datetime

    @property
    def place(self) -> "LetterPlace":
        return LetterPlace(self.died_at, self.job)


@dataclass(frozen=True, slots=True)
class LetterPlace:
    """Where a letter stands in the list, which the others keep when it is gone."""

    died_at: datetime
    job: JobId


class DeadLetters:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, after: LetterPlace | None, limit: int) -> list[DeadLetter]:
        """Newest first."""
        start = (None, None) if after is None else (after.died_at, after.job)
        return [_letter(row) for row in await self._database.fetch(_SQL["dead_page"], *start, limit)]

    async def count(self) -> int:
        return int(await self._database.fetchval(_SQL["dead_count"]))

    async def purge(self, jobs: Sequence[JobId] | None) -> list[JobId]:
        """Remove these letters, or all; returns those that were there."""
        if jobs is None:
            rows = await self._database.fetch(_SQL["purge_all"])
        else:
            rows = await self._database.fetch(_SQL["purge"], jobs)
        return [JobId(row["job_id"]) for row in rows]

    async def requeue(self, jobs: Sequence[JobId] | None) -> list[JobId]:
        """Put these jobs back to work, or all that are dead now, with their attempts reset."""
        requeued: list[JobId] = []
        if jobs is not None:
            for start in range(0, len(jobs), STEP):
                requeued += await self._requeue_some(jobs[start : start + STEP])
            return requeued
        for newest in await self.page(None, 1):
            while chosen := await self._database.fetch(_SQL["take_letters"], STEP, newest.died_at):
                done = await self._requeue_some([JobId(row["job_id"]) for row in chosen])
                if not done:
                    break
                requeued += done
        return requeued

    async def _requeue_some(self, jobs: Sequence[JobId]) -> list[JobId]:
        event = EventDraft(EventType.JOB_QUEUED, {"reason": "requeued"})
        async with self._database.transaction() as connection:
            chosen = [row["id"] for row in await connection.fetch(_SQL["lock_dead"], jobs)]
            await connection.execute(_RECORD["try_again"], chosen, True)
            attempts = [1] * len(chosen)
            rows = await connection.fetch(_CONTROL["requeue"], chosen, attempts, encode_events([event]))
            await connection.execute(_RECORD["recount"], chosen)
        return [JobId(row["id"]) for row in rows]


def _letter(row: Any) -> DeadLetter:
    return DeadLetter(
        job=JobId(row["job_id"]),
        user=UserId(row["user_id"]),
        kind=row["kind"],
        name=row["name"],
        state=JobState(row["state"]),
        job_class=JobClass(row["class"]),
        stage=row["stage"],
        attempt=row["attempt"],
        reason=row["reason"],
        failure=Failure.model_validate(row["failure"]),
        died_at=row["died_at"],
    )
