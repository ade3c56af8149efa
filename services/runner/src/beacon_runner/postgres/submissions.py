"""New jobs: many at once in one statement, each with an answer of its own."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import asyncpg
import orjson

from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass, Tier
from beacon_runner.domain.admission import AdmittedJob
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.lanes import kept_lane
from beacon_runner.domain.quotas import Allowance, LimitReached
from beacon_runner.domain.record import record
from beacon_runner.postgres.arrays import numbers
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.new_ids import ids_from
from beacon_runner.postgres.statements import statements

_SQL = statements("submit")
_QUEUED = JobState.QUEUED
LOOKS = 3
RESTLESS_KEY = "the holder of the idempotency key comes and goes"


@record
class NewJob:
    id: JobId
    user: UserId
    tier: Tier
    job_class: JobClass
    lane: str
    admitted: AdmittedJob
    batch: bool = False  # came with others
    allowance: Allowance | None = None
    idempotency_key: str | None = None
    request_hash: bytes | None = None


@record
class Submitted:
    """A job that is stored; `created` is false when an earlier request with the same key had made it."""

    id: JobId
    state: JobState
    tier: Tier
    job_class: JobClass
    created: bool


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """The idempotency key was used for another request."""

    job: JobId


Known = Submitted | KeyTaken
Answer = Known | LimitReached


class Announce(Protocol):
    """Hears, after the commit, which jobs were stored.

    Of groups that it carries it hears before they are on the disk: they may run while it writes. With them
    come the numbers of their messages in the outbox.
    A `fence` was granted to whoever gets the message of the only one.
    """

    @property
    def carries(self) -> int:
        """Groups of so many at most it brings to Redis itself; the relay leaves them alone at first."""
        ...

    def __call__(self, jobs: Sequence[NewJob], numbers: Sequence[int], fence: int = 0) -> None: ...


class Unheard:
    """For those who leave everything to the relay."""

    carries = 0

    def __call__(self, jobs: Sequence[NewJob], numbers: Sequence[int], fence: int = 0) -> None:
        """The relay looks by itself."""


class Submissions:
    def __init__(self, database: Database, announce: Announce | None = None) -> None:
        self._database = database
        self._announce = announce or Unheard()

    async def submit(self, jobs: Sequence[NewJob]) -> list[Answer]:
        """Store all of them in one transaction; the answers are in the order of the jobs."""
        express = self._express(jobs)
        if express and len(jobs) == 1:
            return await self._submit_one(jobs[0])
        if all(job.idempotency_key is None for job in jobs):
            rows = await self._database.fetch(_SQL["submit"], *columns_of(jobs), express)
            self._announce(jobs, [row["id"] for row in rows])
            answers: list[Answer] = [created(job) for job in jobs]
        else:
            answers = await self._submit_keyed(jobs, express=express)
            express = express or any(is_earlier(answer) for answer in answers)
        if express:
            await self.reach_disk()
        return answers

    async def reach_disk(self) -> None:
        """Wait until all that was committed so far is on the disk: nothing may be promised earlier.

        Whatever goes wrong here, the jobs are stored: to store them once more, one by one, would not help.
        """
        for _ in range(2):  # what was announced goes first: written in one turn, sent at its end
            await asyncio.sleep(0)
        try:
            await self._database.fetch(_SQL["reach_disk"])
        except asyncpg.PostgresError as error:
            raise StoreUnavailableError(str(error)) from error

    async def submit_batch(self, jobs: Sequence[NewJob], key: str, request_hash: bytes) -> Sequence[Answer]:
        """A batch under one key, which its first job holds: all are stored, or none when the key is taken.

        Their ids count: the first one tells which jobs an earlier request has made.
        """
        first = replace(jobs[0], idempotency_key=key, request_hash=request_hash)
        for _ in range(LOOKS):
            if await self._store_batch(first, jobs):
                return [created(job) for job in jobs]
            earlier = await self.earlier_batch(first, len(jobs))
            if earlier is not None:
                return earlier
        raise StoreUnavailableError(RESTLESS_KEY)

    async def earlier_batch(self, first: NewJob, size: int) -> Sequence[Known] | None:
        """What an earlier request with the first job's key has made; None when the key is free.

        One that was no batch of this size, or of which jobs are gone by now, was another request.
        """
        owner, key = first.user, first.idempotency_key
        holders = await self._database.fetch(_SQL["by_idempotency_keys"], [0], [owner], [key])
        if not holders:
            return None
        earlier = earlier_of(first, holders[0])
        if isinstance(earlier, KeyTaken):
            return [earlier]
        rows = await self._database.fetch(_SQL["batch_of"], ids_from(earlier.id, size))
        await self.reach_disk()  # the earlier request may be waiting for it still
        return [_stored(row) for row in rows] if len(rows) == size else [KeyTaken(earlier.id)]

    async def _store_batch(self, first: NewJob, jobs: Sequence[NewJob]) -> bool:
        """False, and nothing stored, when the first one's key is taken."""
        express = self._express(jobs)
        keyed = *columns_of([first]), express, [first.idempotency_key], [first.request_hash]
        async with self._database.transaction() as connection:
            rows = await connection.fetch(_SQL["submit_keyed"], *keyed)
            if not rows:
                return False
            if len(jobs) > 1:
                rows += await connection.fetch(_SQL["submit"], *columns_of(jobs[1:]), express)
        self._announce(jobs, [row["id"] for row in rows])
        if express:
            await self.reach_disk()
        return True

    async def _submit_one(self, job: NewJob) -> list[Answer]:
        rows = await self._database.fetch(_SQL["submit_one"], *values_of(job))
        answers = await self._announced([job], rows, rows[0]["lease"] if rows else 0)
        await self.reach_disk()
        return answers

    async def _submit_keyed(self, jobs: Sequence[NewJob], *, express: bool) -> list[Answer]:
        keys = [job.idempotency_key for job in jobs], [job.request_hash for job in jobs]
        rows = await self._database.fetch(_SQL["submit_keyed"], *columns_of(jobs), express, *keys)
        return await self._announced(jobs, rows)

    async def _announced(self, jobs: Sequence[NewJob], rows: Sequence[Any], fence: int = 0) -> list[Answer]:
        """The answers, once what the rows say was stored is announced."""
        stored = {row["job_id"] for row in rows}
        self._announce([job for job in jobs if job.id in stored], [row["id"] for row in rows], fence)
        return await self._with_earlier(jobs, [created(job) if job.id in stored else None for job in jobs])

    def _express(self, jobs: Sequence[NewJob]) -> bool:
        return len(jobs) <= self._announce.carries

    async def _with_earlier(self, jobs: Sequence[NewJob], answers: list[Answer | None]) -> list[Answer]:
        """Fill in what earlier requests with the same keys have made."""
        missing = [place for place, answer in enumerate(answers) if answer is None]
        if missing:
            owners = [jobs[place].user for place in missing]
            keys = [jobs[place].idempotency_key for place in missing]
            for row in await self._database.fetch(_SQL["by_idempotency_keys"], missing, owners, keys):
                answers[row["place"]] = earlier_of(jobs[row["place"]], row)
        return [
            answer if answer is not None else await self._again(job) for job, answer in _pairs(jobs, answers)
        ]

    async def _again(self, job: NewJob) -> Answer:
        """The holder of the key was removed between the two statements: the key is free now."""
        (answer,) = await self.submit([job])
        return answer


def _pairs(jobs: Sequence[NewJob], answers: list[Answer | None]) -> list[tuple[NewJob, Answer | None]]:
    return list(zip(jobs, answers, strict=True))


def columns_of(jobs: Sequence[NewJob]) -> tuple[Any, ...]:
    """Ids and specs by job; what jobs have in common once, and for each job its place there, from 1."""
    shared: dict[tuple[Any, ...], int] = {}
    places = [shared.setdefault(_shared(job), len(shared) + 1) for job in jobs]
    specs = orjson.dumps([job.admitted.spec for job in jobs])
    return [job.id for job in jobs], numbers(places), specs, *map(list, zip(*map(_row, shared), strict=True))


def values_of(job: NewJob) -> tuple[Any, ...]:
    """The same for a single one."""
    return job.id, *_row(_shared(job)), job.admitted.spec, job.idempotency_key, job.request_hash


def _shared(job: NewJob) -> tuple[Any, ...]:
    one = job.admitted
    return job.user, job.tier, job.job_class, job.lane, job.batch, one.kind, one.name, one.stages, one.total


def _row(shared: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same as rows keep it."""
    user, tier, job_class, lane, *more = shared
    return user, tier, job_class, kept_lane(lane, user), *more


def created(job: NewJob) -> Submitted:
    return Submitted(job.id, _QUEUED, job.tier, job.job_class, True)  # by name it takes twice as long


def is_earlier(answer: Answer) -> bool:
    """Stored by an earlier request, which may be waiting for the disk still."""
    return isinstance(answer, Submitted) and not answer.created


def earlier_of(job: NewJob, row: Any) -> Known:
    if row["request_hash"] != job.request_hash:
        return KeyTaken(JobId(row["id"]))
    return _stored(row)


def _stored(row: Any) -> Submitted:
    return Submitted(
        JobId(row["id"]), JobState(row["state"]), Tier(row["tier"]), JobClass(row["class"]), created=False
    )
