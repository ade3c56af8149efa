"""Recording what workers report: fenced, many jobs in one statement and one transaction."""

from collections.abc import Sequence

from beacon_contracts.ids import JobId
from beacon_runner.domain.stage_result import Dead, RetryLater, StageReport
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.refunds import refund
from beacon_runner.postgres.report_params import record_params
from beacon_runner.postgres.retry_on_conflict import retried
from beacon_runner.postgres.statements import statements

_SQL = statements("results")


async def record(database: Database, reports: Sequence[StageReport]) -> frozenset[JobId]:
    """The jobs whose reports were applied; the others had lost their fence. At most one report per job."""
    ordered = sorted(reports, key=lambda report: report.claimed.id.int)  # one lock order: fewer deadlocks
    values = record_params(ordered)
    retries = [report.job for report in ordered if isinstance(report.verdict, RetryLater)]
    refunds = [report.job for report in ordered if report.claimed.front and isinstance(report.verdict, Dead)]
    if not retries and not refunds:
        rows = await retried(lambda: database.fetch(_SQL["record"], *values))
        return frozenset(row["id"] for row in rows)

    async def with_consequences() -> frozenset[JobId]:
        async with database.transaction() as connection:
            rows = await connection.fetch(_SQL["record"], *values)
            applied = frozenset(JobId(row["id"]) for row in rows)
            if again := [job for job in retries if job in applied]:
                await connection.execute(_SQL["try_again"], again, False)
            if ended := [job for job in refunds if job in applied]:
                await refund(connection, ended)
        return applied

    return await retried(with_consequences)
