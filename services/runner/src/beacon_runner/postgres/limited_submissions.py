"""New jobs within limits: counted and stored in one transaction, so that two cannot take the last place."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from beacon_contracts.ids import UserId
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.quotas import Allowance, Newcomer, Use, let_in
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.new_ids import batch_of
from beacon_runner.postgres.queue_capacity import QueueRoom
from beacon_runner.postgres.retry_on_conflict import retried
from beacon_runner.postgres.statements import statements
from beacon_runner.postgres.submissions import (
    LOOKS,
    RESTLESS_KEY,
    Announce,
    Answer,
    NewJob,
    Submissions,
    Unheard,
    columns_of,
    created,
    earlier_of,
    is_earlier,
    values_of,
)

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("limits")
_SUBMIT = statements("submit")
_COUNTED = 10_000


class _KeyRacedError(Exception):
    """Another request has taken the key of a batch in this very moment: nothing of it was stored."""


class GuardedSubmissions:
    """Users without limits take the short way, one statement, as long as the queue has plenty of room."""

    def __init__(self, database: Database, room: QueueRoom, announce: Announce | None = None) -> None:
        self._database = database
        self._submissions = Submissions(database, announce)
        self._room = room
        self._announce = announce or Unheard()

    async def submit(self, jobs: Sequence[NewJob]) -> Sequence[Answer]:
        """Jobs of users without limits."""
        if self._room.is_plenty(len(jobs)):
            return await self._submissions.submit(jobs)
        return await self.submit_limited(jobs)

    async def submit_limited(self, jobs: Sequence[NewJob]) -> Sequence[Answer]:
        """Jobs of anybody; each is refused for itself, those of a batch together."""
        answers = await retried(lambda: self._count_and_store(jobs))
        return [answers.get(job.id) or await self._again(job) for job in jobs]

    async def submit_batch(self, jobs: Sequence[NewJob], key: str, request_hash: bytes) -> Sequence[Answer]:
        """A batch under one key, which its first job holds: all are stored, or none."""
        if jobs[0].allowance is None and self._room.is_plenty(len(jobs)):
            return await self._submissions.submit_batch(jobs, key, request_hash)
        first = replace(jobs[0], idempotency_key=key, request_hash=request_hash)
        for _ in range(LOOKS):
            earlier = await self._submissions.earlier_batch(first, len(jobs))
            if earlier is not None:
                return earlier
            try:
                return await self.submit_limited([first, *jobs[1:]])
            except _KeyRacedError:
                continue
        raise StoreUnavailableError(RESTLESS_KEY)

    async def use_of(self, user: UserId, allowance: Allowance | None) -> Use:
        """What the user has now, for showing it."""
        granted = allowance or Allowance()
        pending, this_hour = granted.pending_jobs or _COUNTED, granted.jobs_per_hour or _COUNTED
        rows = await self._database.fetch(_SQL["used"], [user], [max(pending, _COUNTED)], [this_hour])
        return _use(rows[0])

    async def close(self) -> None:
        await self._room.close()

    async def _again(self, job: NewJob) -> Answer:
        """Its key was taken and is free again, or is held by another job of the same moment."""
        return (await self.submit_limited([job]))[0]

    async def _count_and_store(self, jobs: Sequence[NewJob]) -> dict[Any, Answer]:
        """What became of each job by its id; one whose key another job of this call holds is missing."""
        async with self._database.transaction() as connection:
            users = {job.user: job.allowance for job in jobs if job.allowance is not None}
            if users:
                await connection.execute(_SQL["lock_users"], sorted(users))
            answers: dict[Any, Answer] = await _holders(connection, jobs)
            new = _first_of_each_key([job for job in jobs if job.id not in answers])
            room = await self._exact_room(connection, len(new))
            newcomers = [
                Newcomer(job.user, job.allowance, batch_of(job.id) if job.batch else job.id) for job in new
            ]
            met = let_in(newcomers, await _used(connection, users), room, self._room.size)
            answers |= {job.id: limit for job, limit in zip(new, met, strict=True) if limit is not None}
            passed = [job for job, limit in zip(new, met, strict=True) if limit is None]
            express = len(passed) <= self._announce.carries
            stored, numbers, fence = await _store(connection, passed, express=express)
        self._announce(stored, numbers, fence)
        if (stored and express) or any(is_earlier(answer) for answer in answers.values()):
            await self._submissions.reach_disk()
        return answers | {job.id: created(job) for job in stored}

    async def _exact_room(self, connection: "Connection", count: int) -> int | None:
        """None while there is plenty: then nobody has to wait for anybody."""
        if self._room.is_plenty(count):
            return None
        await connection.execute(_SQL["lock_queue"])
        live = int(await connection.fetchval(_SQL["live_jobs"], self._room.size))
        self._room.counted(live, count)
        return self._room.size - live


async def _holders(connection: "Connection", jobs: Sequence[NewJob]) -> dict[Any, Answer]:
    """The answers to jobs whose keys earlier requests have used: these cost no place."""
    keyed = [job for job in jobs if job.idempotency_key is not None]
    if not keyed:
        return {}
    owners, keys = [job.user for job in keyed], [job.idempotency_key for job in keyed]
    rows = await connection.fetch(_SUBMIT["by_idempotency_keys"], list(range(len(keyed))), owners, keys)
    found = {keyed[row["place"]].id: (keyed[row["place"]], row) for row in rows}
    if any(job.batch for job, _ in found.values()):
        raise _KeyRacedError
    return {job_id: earlier_of(job, row) for job_id, (job, row) in found.items()}


def _first_of_each_key(jobs: Sequence[NewJob]) -> list[NewJob]:
    first: dict[object, NewJob] = {}
    for job in jobs:
        first.setdefault((job.user, job.idempotency_key) if job.idempotency_key is not None else job.id, job)
    return list(first.values())


async def _used(connection: "Connection", users: Mapping[UserId, Allowance | None]) -> Mapping[UserId, Use]:
    if not users:
        return {}
    granted = [allowance or Allowance() for allowance in users.values()]
    rows = await connection.fetch(
        _SQL["used"],
        list(users),
        [allowance.pending_jobs or 0 for allowance in granted],
        [allowance.jobs_per_hour or 0 for allowance in granted],
    )
    return {UserId(row["user_id"]): _use(row) for row in rows}


async def _store(
    connection: "Connection", jobs: Sequence[NewJob], *, express: bool
) -> tuple[Sequence[NewJob], Sequence[int], int]:
    """Those whose keys were free, the numbers of their messages, and the fence granted to a single one."""
    if not jobs:
        return (), (), 0
    single = express and len(jobs) == 1
    if single:
        rows = await connection.fetch(_SUBMIT["submit_one"], *values_of(jobs[0]))
    else:
        keys = [job.idempotency_key for job in jobs], [job.request_hash for job in jobs]
        rows = await connection.fetch(_SUBMIT["submit_keyed"], *columns_of(jobs), express, *keys)
    stored = {row["job_id"] for row in rows}
    if any(job.batch and job.id not in stored for job in jobs):
        raise _KeyRacedError
    fence = rows[0]["lease"] if single and rows else 0
    return [job for job in jobs if job.id in stored], [row["id"] for row in rows], fence


def _use(row: Any) -> Use:
    frees_in_s = row["frees_in_s"]
    return Use(row["pending"], row["this_hour"], None if frees_in_s is None else max(0.0, frees_in_s))
