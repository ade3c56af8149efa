"""Applying what workers report: fenced, whole or not at all, many jobs in one transaction."""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import ExecutionState
from beacon_runner.domain.stage_result import Dead, Finished, RetryLater, StageReport
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.refunds import refund
from beacon_runner.postgres.report_params import execution_columns, job_columns, newest, single_columns
from beacon_runner.postgres.retry_on_conflict import retried
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("record")
_COMPLETED = ExecutionState.COMPLETED


class Records:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        """The jobs whose reports were all applied; the others had lost their fence."""
        if all(map(_is_single, reports)) and len(_by_fence(reports)) == 1:
            return await retried(lambda: _record_single(self._database, reports))
        ordered = sorted(reports, key=_order)  # rows are locked in one order: fewer deadlocks
        return await retried(lambda: self._record_rounds(ordered))

    async def _record_rounds(self, ordered: Sequence[StageReport]) -> frozenset[JobId]:
        refused: frozenset[JobId] = frozenset()
        async with self._database.transaction() as connection:
            for reports in _rounds(ordered):
                refused |= {report.job for report in reports} - await _record(connection, reports)
        return frozenset(report.job for report in ordered) - refused


async def _record(connection: "Connection", reports: Sequence[StageReport]) -> frozenset[JobId]:
    applied = await _record_general(connection, [report for report in reports if not _is_single(report)])
    for same_fence in _by_fence([report for report in reports if _is_single(report)]):
        applied |= await _record_single(connection, same_fence)
    return applied


async def _record_single(target: "Database | Connection", reports: Sequence[StageReport]) -> frozenset[JobId]:
    applied = await target.fetchval(_SQL["record_single"], *single_columns(reports))
    return frozenset([report.claimed.id for report in reports] if applied is None else applied)


async def _record_general(connection: "Connection", reports: Sequence[StageReport]) -> frozenset[JobId]:
    if not reports:
        return frozenset()
    rows = await connection.fetch(_SQL["record_jobs"], *job_columns(reports))
    applied = frozenset(JobId(row[0]) for row in rows)
    held = [report for report in reports if report.job in applied]
    executions = newest(held)
    if executions:
        await connection.execute(_SQL["record_executions"], *execution_columns(executions))
    again = [report.job for report in held if isinstance(report.verdict, RetryLater)]
    if again:
        await connection.execute(_SQL["try_again"], again, False)
    ended = [report.job for report in held if report.claimed.front and isinstance(report.verdict, Dead)]
    if ended:
        await refund(connection, ended)
    counted = [report.job for report in held if executions or report.verdict is not None]
    if counted:
        await connection.execute(_SQL["recount"], counted)
    return applied


def _is_single(report: StageReport) -> bool:
    """A generation that ran and completed in one go: nothing of it was recorded, or told, before."""
    claimed = report.claimed
    return (
        claimed.kind == "generation"
        and claimed.ticket == 1
        and isinstance(report.verdict, Finished)
        and not claimed.known
        and not report.events
        and len(report.executions) == 1
        and not report.executions[0].start_reported
        and report.executions[0].state is _COMPLETED
    )


def _by_fence(reports: Sequence[StageReport]) -> Collection[Sequence[StageReport]]:
    """Nearly always one: jobs claimed for the first time get the same fence for as long as an era lasts."""
    found: dict[int, list[StageReport]] = {}
    for report in reports:
        found.setdefault(report.claimed.fence, []).append(report)
    return found.values()


def _order(report: StageReport) -> int:
    return report.claimed.id.int


def _rounds(ordered: Sequence[StageReport]) -> Iterator[list[StageReport]]:
    """Reports of the same job one after another: a statement can change a row only once."""
    of_jobs = [list(group) for _, group in groupby(ordered, key=_order)]
    for reports in zip_longest(*of_jobs):
        yield [report for report in reports if report is not None]
