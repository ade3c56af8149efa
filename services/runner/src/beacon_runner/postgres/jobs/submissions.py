"""Stores new jobs: concurrent submissions share one transaction, and every job gets its own answer."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson
from asyncpg.exceptions import UniqueViolationError

from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import Clock
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.jobs.job_ids import batch_of, ids_from
from beacon_runner.domain.jobs.submissions import (
    Answer,
    FilesUnusable,
    KeyTaken,
    Known,
    NewJob,
    Schedule,
    Submitted,
)
from beacon_runner.domain.limits.job_quota import Allowance, LimitReached, QuotaCandidate, Use, admit
from beacon_runner.domain.queue.lanes import UNCHOSEN, kept_lane
from beacon_runner.domain.queue.messages import Message, OutboxEntry, Topic
from beacon_runner.postgres.database import Database, ids, retried
from beacon_runner.postgres.files import link_files, lock_usable_files
from beacon_runner.postgres.group_commit import GroupCommit
from beacon_runner.postgres.queue_capacity import QueueCapacity
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("submissions")
_KEYS = "jobs_idempotency"  # the index of the keys
MAX_KEY_LOOKUPS = 3
MAX_COUNTED_JOBS = 10_000


class _KeyTakenMeanwhileError(Exception):
    """Another request has taken an idempotency key: nothing was stored."""


class PostgresSubmissions:
    """Jobs of users without limits are one statement; limits are counted in the storing transaction.

    The two kinds are flushed separately, so that users without limits never wait for a count.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        queue_size: int,
        on_commit: Callable[[Sequence[OutboxEntry]], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._capacity = QueueCapacity(database, clock, queue_size)
        self._on_commit = on_commit
        self._unlimited: GroupCommit[NewJob, Answer] = GroupCommit("submissions", self._store_unlimited)
        self._limited: GroupCommit[NewJob, Answer] = GroupCommit("limited-submissions", self._store_checked)

    async def submit(self, jobs: Sequence[NewJob]) -> Sequence[Answer]:
        """Store one user's jobs; returns after the commit, with an answer for each job."""
        flushes = self._unlimited if jobs[0].allowance is None else self._limited
        return await flushes.submit(jobs)

    async def submit_batch(self, jobs: Sequence[NewJob], key: str, request_hash: bytes) -> Sequence[Answer]:
        """Store a batch under one idempotency key, which its first job holds: all of its jobs, or none."""
        first = jobs[0]._replace(idempotency_key=key, request_hash=request_hash)
        for _ in range(MAX_KEY_LOOKUPS):
            earlier = await self._earlier_batch(first, len(jobs))
            if earlier is not None:
                return earlier
            try:
                answers = await self._check_and_store([first, *jobs[1:]])
                return [answers[job.id] for job in jobs]
            except _KeyTakenMeanwhileError:
                continue
        raise StoreUnavailableError("the idempotency key was taken and released by concurrent requests")

    async def is_key_used(self, user: UserId, key: str) -> bool:
        return bool(await self._database.fetch(_SQL["by_idempotency_keys"], [0], [user], [key]))

    async def use_of(self, user: UserId, allowance: Allowance | None) -> Use:
        """What the user has of everything that can be limited."""
        limits = allowance or Allowance()
        pending, this_hour = limits.pending_jobs or MAX_COUNTED_JOBS, limits.jobs_per_hour or MAX_COUNTED_JOBS
        bounds = [max(pending, MAX_COUNTED_JOBS)], [this_hour], [True], [True], [True]
        (row,) = await self._database.fetch(_SQL["used"], [user], *bounds)
        return _use(row)

    def resize_queue(self, size: int) -> None:
        """How many live jobs there may be from now on."""
        self._capacity.resize(size)

    async def close(self) -> None:
        """Write what was accepted."""
        await self._unlimited.close()
        await self._limited.close()
        await self._capacity.close()

    async def _store_unlimited(self, jobs: Sequence[NewJob]) -> Sequence[Answer]:
        """In one statement while the queue has much room and no idempotency key is taken."""
        if not any(job.admitted.files for job in jobs) and self._capacity.reserve(len(jobs)):
            with suppress(_KeyTakenMeanwhileError):
                answers = self._committed(jobs, await _insert(self._database, jobs))
                await asyncio.sleep(0)  # the push to Redis is sent before the responses are built
                return answers
        return await self._store_checked(jobs)

    async def _store_checked(self, jobs: Sequence[NewJob]) -> Sequence[Answer]:
        """Check limits and idempotency keys; a key may also be taken by another job of the same call."""
        answers: dict[JobId, Answer] = {}
        while missing := [job for job in jobs if job.id not in answers]:
            with suppress(_KeyTakenMeanwhileError):  # the next round finds its job
                answers |= await self._check_and_store(missing)
        return [answers[job.id] for job in jobs]

    async def _check_and_store(self, jobs: Sequence[NewJob]) -> Mapping[JobId, Answer]:
        async def transaction() -> tuple[dict[JobId, Answer], list[NewJob], Sequence[Any]]:
            async with self._database.transaction() as connection:
                users = {job.user: job.allowance for job in jobs if job.allowance is not None}
                if users:
                    await connection.execute(_SQL["lock_users"], sorted(users))
                answers: dict[JobId, Answer] = await _earlier_answers(connection, jobs)
                new = _first_of_each_key([job for job in jobs if job.id not in answers])
                if any(job.admitted.files for job in new):
                    answers |= await _unusable_files(connection, new)
                    new = [job for job in new if job.id not in answers]
                room = await self._capacity.room(connection, len(new))
                candidates = [
                    QuotaCandidate(job.user, job.allowance, _group(job), _may_wait(job), job.admitted.total)
                    for job in new
                ]
                reached = admit(candidates, await _used(connection, users), room, self._capacity.size)
                decided = list(zip(new, reached, strict=True))
                answers |= {job.id: limit for job, limit in decided if isinstance(limit, LimitReached)}
                admitted = [
                    job if limit is None else job.waiting()
                    for job, limit in decided
                    if not isinstance(limit, LimitReached)
                ]
                rows = await _insert(connection, admitted) if admitted else []
                if links := [(job.id, file) for job in admitted for file in job.admitted.files]:
                    await link_files(connection, links)
            return answers, admitted, rows

        answers, admitted, rows = await retried(transaction)
        return answers | {answer.id: answer for answer in self._committed(admitted, rows)}

    def _committed(self, jobs: Sequence[NewJob], rows: Sequence[Any]) -> list[Submitted]:
        """Publish the messages of the stored jobs, as `PostgresOutbox.take` would return them."""
        if jobs:
            outbox_rows = dict(rows)
            self._on_commit([_entry(job, outbox_rows[job.id]) for job in jobs if job.id in outbox_rows])
        return [
            Submitted(
                job.id, job.state if job.schedule else JobState.QUEUED, job.tier, job.job_class, created=True
            )
            for job in jobs
        ]

    async def _earlier_batch(self, first: NewJob, size: int) -> Sequence[Known] | None:
        """The jobs of an earlier request with the same key; None when the key is free.

        The ids of a batch are consecutive, so the first one identifies the others. A request that was not a
        batch of this size, or of which jobs are deleted by now, was a different one.
        """
        values = [0], [first.user], [first.idempotency_key]
        holders = await self._database.fetch(_SQL["by_idempotency_keys"], *values)
        if not holders:
            return None
        earlier = _earlier(first, holders[0])
        if isinstance(earlier, KeyTaken):
            return [earlier]
        rows = await self._database.fetch(_SQL["batch_of"], ids_from(earlier.id, size))
        return [_stored(row) for row in rows] if len(rows) == size else [KeyTaken(earlier.id)]


async def _insert(store: "Database | Connection", jobs: Sequence[NewJob]) -> Sequence[Any]:
    """The ids of the jobs and of their outbox rows."""
    try:
        return await store.fetch(_SQL["submit"], *submit_params(jobs))
    except UniqueViolationError as error:
        if error.constraint_name != _KEYS:
            raise
        raise _KeyTakenMeanwhileError from error


def submit_params(jobs: Sequence[NewJob]) -> tuple[Any, ...]:
    """The parameters of the `submit` statement. Values that jobs share are sent once."""
    shared: dict[tuple[Any, ...], int] = {}
    indexes = []
    for job in jobs:
        kind, name, _, stages, total, model, *_ = job.admitted
        hook = None if job.webhook is None else orjson.dumps(job.webhook).decode()
        of = job.user, job.tier, job.job_class, job.lane, job.batch
        values = *of, kind, name, stages, total, model, hook, job.key
        indexes.append(shared.setdefault(values, len(shared) + 1))
    rows = [(user, tier, of, kept_lane(lane, user), *rest) for user, tier, of, lane, *rest in shared]
    keyed = any(job.idempotency_key is not None for job in jobs)
    labelled = any(job.admitted.labels is not None for job in jobs)
    scheduled = any(job.schedule is not None for job in jobs)
    return (
        ids([job.id for job in jobs]),
        "{" + orjson.dumps(indexes)[1:-1].decode() + "}",  # faster than a list, like `ids`
        orjson.dumps([job.admitted.spec for job in jobs]),
        [job.idempotency_key for job in jobs] if keyed else None,
        [job.request_hash for job in jobs] if keyed else None,
        [_json(job.admitted.labels) for job in jobs] if labelled else None,
        *(_schedules(jobs) if scheduled else (None, None, None)),
        *map(list, zip(*rows, strict=True)),
    )


def _schedules(jobs: Sequence[NewJob]) -> tuple[list[Any], list[Any], list[bool]]:
    """When each starts and expires, and whether it waits for a limit."""
    schedules = [job.schedule or Schedule() for job in jobs]
    return (
        [one.not_before for one in schedules],
        [one.expires_at for one in schedules],
        [one.waits for one in schedules],
    )


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else orjson.dumps(value).decode()


def _may_wait(job: NewJob) -> bool:
    return job.schedule is not None and job.schedule.may_wait


def _entry(job: NewJob, row: int) -> OutboxEntry:
    message = Message(job.id, 1, 0, 1, job.job_class, job.lane)
    if job.schedule is not None and job.schedule.not_before is not None:
        return OutboxEntry(Topic.RETRY, message, job.schedule.not_before.timestamp(), row=row)
    unchosen = batch_of(job.id) if job.batch and job.lane == UNCHOSEN else None
    return OutboxEntry(Topic.JOBS, message, batch=unchosen, row=row)


async def _earlier_answers(connection: "Connection", jobs: Sequence[NewJob]) -> dict[JobId, Answer]:
    """The answers to jobs whose keys earlier requests have used: these do not count against limits."""
    keyed = [job for job in jobs if job.idempotency_key is not None]
    if not keyed:
        return {}
    owners, keys = [job.user for job in keyed], [job.idempotency_key for job in keyed]
    rows = await connection.fetch(_SQL["by_idempotency_keys"], list(range(len(keyed))), owners, keys)
    found = [(keyed[row["place"]], row) for row in rows]
    if any(job.batch for job, _ in found):
        raise _KeyTakenMeanwhileError
    return {job.id: _earlier(job, row) for job, row in found}


def _first_of_each_key(jobs: Sequence[NewJob]) -> list[NewJob]:
    first: dict[object, NewJob] = {}
    for job in jobs:
        first.setdefault((job.user, job.idempotency_key) if job.idempotency_key is not None else job.id, job)
    return list(first.values())


async def lock_and_count(connection: "Connection", user: UserId, allowance: Allowance | None) -> Use:
    """What the user has; it stays so until the end of the transaction."""
    await connection.execute(_SQL["lock_users"], [user])
    found = await _used(connection, {user: allowance or Allowance()})
    return found[user]


def _group(job: NewJob) -> object:
    """The jobs of a batch are stored together or not at all."""
    return batch_of(job.id) if job.batch else job.id


async def _unusable_files(connection: "Connection", jobs: Sequence[NewJob]) -> dict[JobId, FilesUnusable]:
    """The jobs that name files which they cannot use, and the other jobs of their batches."""
    named = {file for job in jobs for file in job.admitted.files}
    owners = await lock_usable_files(connection, sorted(named))
    fields: dict[JobId, tuple[str, ...]] = {}
    for job in jobs:
        wrong = tuple(field for file, field in job.admitted.files.items() if owners.get(file) != job.user)
        if wrong:
            fields[job.id] = wrong
    refused = {_group(job) for job in jobs if job.id in fields}
    return {job.id: FilesUnusable(fields.get(job.id, ())) for job in jobs if _group(job) in refused}


async def _used(connection: "Connection", users: Mapping[UserId, Allowance]) -> Mapping[UserId, Use]:
    if not users:
        return {}
    limits = users.values()
    rows = await connection.fetch(
        _SQL["used"],
        list(users),
        [one.pending_jobs or 0 for one in limits],
        [one.jobs_per_hour or 0 for one in limits],
        [one.storage_bytes is not None for one in limits],
        [one.in_flight_executions is not None for one in limits],
        [one.gpu_seconds_per_day is not None for one in limits],
    )
    return {UserId(row["user_id"]): _use(row) for row in rows}


def _use(row: Any) -> Use:
    frees_in_s = row["frees_in_s"]
    frees_in_s = None if frees_in_s is None else max(0.0, frees_in_s)
    return Use(
        row["pending"],
        row["this_hour"],
        frees_in_s,
        row["waiting"],
        row["stored_bytes"],
        row["in_flight"],
        row["gpu_seconds_today"],
        row["day_ends_in_s"],
    )


def _earlier(job: NewJob, row: Any) -> Known:
    return _stored(row) if row["request_hash"] == job.request_hash else KeyTaken(JobId(row["id"]))


def _stored(row: Any) -> Submitted:
    return Submitted(
        JobId(row["id"]), JobState(row["state"]), row["tier"], JobClass(row["class"]), created=False
    )
