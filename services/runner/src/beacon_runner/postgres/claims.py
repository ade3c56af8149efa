"""Claims jobs and records their results: many jobs in one statement and one transaction.

Each claim increments the job's fence, and a report with an older fence is not applied.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from beacon_contracts.failures import Failure
from beacon_contracts.ids import JobId
from beacon_contracts.jobs import ExecutionState
from beacon_runner.domain.lanes import is_numbered
from beacon_runner.domain.messages import Message
from beacon_runner.domain.stage_result import (
    ClaimedJob,
    Dead,
    Deferred,
    RecordedExecution,
    RetryLater,
    StageReport,
)
from beacon_runner.postgres.credit import refund
from beacon_runner.postgres.database import Database, ids, retried
from beacon_runner.postgres.report_params import record_params
from beacon_runner.postgres.statements import statements

_SQL = statements("claims")
_RESULTS = statements("results")


class PostgresClaims:
    """The worker's store: claim, then record."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._unanswered: list[Message] = []  # claims whose answer was lost: their jobs were not started

    async def claim(self, messages: Sequence[Message], worker: str) -> Sequence[ClaimedJob]:
        """Fence the jobs whose message is current; jobs with an outdated message are left out."""
        if self._unanswered:
            await self._uncount_deliveries()
        lanes = {message.job: message.lane for message in messages if is_numbered(message.lane)}
        generations = {message.job: message.generation for message in messages if message.generation != 1}
        values = ids([message.job for message in messages]), _by_job(generations), _by_job(lanes), worker
        try:
            rows = await retried(self._database.fetch, _SQL["claim"], *values)
        except BaseException:
            self._unanswered += messages
            raise
        return [_claimed(row) for row in rows]

    async def record(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        """Apply each report whose fence is current, in one transaction; returns the applied jobs.

        At most one report per job.
        """
        ordered = sorted(reports, key=lambda report: report.claimed.id.int)  # one lock order: fewer deadlocks
        values = record_params(ordered)
        retries = [report.claimed.id for report in ordered if isinstance(report.verdict, RetryLater)]
        refunds = [
            report.claimed.id
            for report in ordered
            if report.claimed.front and isinstance(report.verdict, Dead)
        ]
        if not retries and not refunds:
            rows = await retried(self._database.fetch, _RESULTS["record"], *values)
            return frozenset(row["id"] for row in rows)

        async def with_consequences() -> frozenset[JobId]:
            async with self._database.transaction() as connection:
                rows = await connection.fetch(_RESULTS["record"], *values)
                applied = frozenset(JobId(row["id"]) for row in rows)
                if again := [job for job in retries if job in applied]:
                    await connection.execute(_RESULTS["try_again"], again, False)
                if ended := [job for job in refunds if job in applied]:
                    await refund(connection, ended)
            return applied

        return await retried(with_consequences)

    async def _uncount_deliveries(self) -> None:
        """A claim without an answer is not a delivery; one that was not counted delays poison by one."""
        unanswered, self._unanswered = self._unanswered, []
        jobs = [message.job for message in unanswered]
        try:
            await self._database.execute(
                _SQL["uncount"], jobs, [message.generation for message in unanswered]
            )
        except BaseException:
            self._unanswered += unanswered
            raise


def _by_job(values: Mapping[JobId, int | str]) -> str:
    """A JSON object, empty in most claims."""
    return orjson.dumps({str(job): value for job, value in values.items()}).decode()


def _claimed(row: Any) -> ClaimedJob:
    deferred = row["deferred"]
    return ClaimedJob(
        id=row["id"],
        user=row["user_id"],
        fence=row["fence"],
        generation=row["generation"],
        stage=row["stage"],
        stages=row["stages"],
        attempt=row["attempt"],
        kind=row["kind"],
        spec=row["spec"],
        context=row["context"] or {},
        tier=row["tier"],
        weight=1.0 if row["weight"] is None else row["weight"],
        front=row["front"],
        deliveries=row["deliveries"],
        deferred=None if deferred is None else Deferred(**deferred),
        recorded_executions=tuple(_recorded(one) for one in row["recorded"] or ()),
    )


def _recorded(one: Mapping[str, Any]) -> RecordedExecution:
    failure = one["failure"]
    return RecordedExecution(
        one["ordinal"],
        ExecutionState(one["state"]),
        one["attempt"],
        Failure.model_validate(failure) if failure is not None else None,
        one["output"],
        one["start_reported"],
    )
