"""Handing jobs to workers: each claim grows the job's fence, so that an earlier holder can change nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import orjson

from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.ids import JobId
from beacon_contracts.jobs import ExecutionState
from beacon_contracts.tiers import Tier
from beacon_runner.domain.lanes import is_numbered
from beacon_runner.domain.messages import Message
from beacon_runner.domain.stage_result import ClaimedJob, Deferred, KnownExecution, StageReport
from beacon_runner.postgres.arrays import ids
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.refunds import refund
from beacon_runner.postgres.results import Records
from beacon_runner.postgres.retry_on_conflict import retried
from beacon_runner.postgres.statements import statements

_SQL = statements("claim")
_RECOUNT = statements("record")["recount"]
_NOTHING: Mapping[str, Any] = {}


class PostgresClaims:
    """The worker's side of the truth: claim, then record."""

    def __init__(self, database: Database, *, max_deliveries: int) -> None:
        self._database = database
        self._max_deliveries = max_deliveries
        self._records = Records(database)
        self._unheard: list[Message] = []  # of claims whose answers were lost: nobody has begun their jobs

    async def claim(self, messages: Sequence[Message], worker: str) -> Sequence[ClaimedJob]:
        """Fence each job that its message still speaks for; the others are missing from the answer."""
        if self._unheard:
            await self._uncount()
        try:
            return await self._claim(messages, worker)
        except BaseException:
            self._unheard += messages
            raise

    async def _claim(self, messages: Sequence[Message], worker: str) -> Sequence[ClaimedJob]:
        chosen = {lane for lane in {message.lane for message in messages} if is_numbered(lane)}
        wanted = (
            ids([message.job for message in messages]),
            _by_job({message.job: message.ticket for message in messages if message.ticket != 1}),
            _by_job({message.job: message.lane for message in messages if message.lane in chosen}),
        )
        rows = await self._fenced(*wanted, worker)
        if not rows:  # all of them are late, or the era of fences has ended
            await self._database.execute(_SQL["begin_era"])
            rows = await self._fenced(*wanted, worker)
        if len(rows) < len(messages):
            await self._bury_poison(messages, {row[0] for row in rows})
        claimed = [_claimed(row) for row in rows]
        again = [job.id for job in claimed if job.claimed_before]
        if not again:
            return claimed
        known = await self._known(again)
        return [replace(job, known=known[job.id]) if job.id in known else job for job in claimed]

    async def confirm(self, message: Message, job: ClaimedJob, worker: str) -> bool:
        lane = message.lane if is_numbered(message.lane) else None
        values = job.id, job.fence, worker, lane
        try:
            return await retried(lambda: self._database.fetchval(_SQL["confirm"], *values)) is not None
        except BaseException:
            self._unheard.append(message)
            raise

    async def record(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        return await self._records.record(reports)

    async def _fenced(self, *values: Any) -> list[Any]:
        return await retried(lambda: self._database.fetch(_SQL["claim"], *values, self._max_deliveries))

    async def _uncount(self) -> None:
        """Deliveries of which nobody heard are none. Where none was counted, poison dies one later."""
        unheard, self._unheard = self._unheard, []
        columns = [message.job for message in unheard], [message.ticket for message in unheard]
        try:
            await self._database.execute(_SQL["uncount"], *columns)
        except BaseException:
            self._unheard += unheard
            raise

    async def _known(self, jobs: Sequence[UUID]) -> dict[UUID, tuple[KnownExecution, ...]]:
        known: dict[UUID, list[KnownExecution]] = {}
        for row in await self._database.fetch(_SQL["known"], jobs):
            known.setdefault(row["job_id"], []).append(_known(row))
        return {job: tuple(executions) for job, executions in known.items()}

    async def _bury_poison(self, messages: Sequence[Message], claimed: set[UUID]) -> None:
        """A message that got no job is late, or its job was delivered too often."""
        left = [message for message in messages if message.job not in claimed]
        failure = Failure(
            code="poison",
            stage=FailureStage.RUN,
            retryable=False,
            message=f"given to workers {self._max_deliveries} times without coming to an end",
        )
        async with self._database.transaction() as connection:
            rows = await connection.fetch(
                _SQL["bury_poison"],
                [message.job for message in left],
                [message.ticket for message in left],
                self._max_deliveries,
                failure.model_dump(mode="json", exclude_none=True),
            )
            if rows:
                buried = [row["id"] for row in rows]
                await refund(connection, buried)
                await connection.execute(_RECOUNT, buried)


def _by_job(values: Mapping[JobId, int | str]) -> str:
    """A JSON object, empty in most claims."""
    return orjson.dumps({str(job): value for job, value in values.items()}).decode()


# Looked up, not called: an enumeration's call costs as much as the rest of a row.
_TIERS: Mapping[str, Tier] = {tier.value: tier for tier in Tier}


def _claimed(row: Any) -> ClaimedJob:
    """In the order of the statement's columns, which is that of the class."""
    (
        job,
        user,
        fence,
        ticket,
        stage,
        stages,
        attempt,
        kind,
        spec,
        context,
        tier,
        front,
        before,
        postponed,
    ) = row
    return ClaimedJob(
        job,
        user,
        fence,
        ticket,
        stage,
        stages,
        attempt,
        kind,
        spec,
        context or _NOTHING,
        _TIERS[tier],
        front,
        before,
        None if postponed is None else Deferred(**postponed),
    )


def _known(row: Any) -> KnownExecution:
    failure = row["failure"]
    return KnownExecution(
        row["ordinal"],
        ExecutionState(row["state"]),
        row["attempt"],
        Failure.model_validate(failure) if failure is not None else None,
        row["output"],
        row["told"],
    )
