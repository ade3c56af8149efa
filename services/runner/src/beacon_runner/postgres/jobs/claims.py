"""Claims jobs and records their results: many jobs in one statement and one transaction.

Each claim increments the job's fence, and a report with an older fence is not applied.
"""

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

import orjson

from beacon_contracts.failures import Failure
from beacon_contracts.files import InputFile, OutputFile
from beacon_contracts.ids import FILE, FileId, JobId, encode_id
from beacon_contracts.inference import RemoteRun
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.execution.plan import files_of_stage
from beacon_runner.domain.execution.stage_result import (
    ClaimedJob,
    Dead,
    Deferred,
    RecordedExecution,
    RetryLater,
    StageReport,
)
from beacon_runner.domain.files.files import file_target, signed_path
from beacon_runner.domain.queue.lanes import is_numbered
from beacon_runner.domain.queue.messages import Message
from beacon_runner.postgres.accounts.credit import refund
from beacon_runner.postgres.database import Database, ids, retried
from beacon_runner.postgres.files import add_outputs, file_record
from beacon_runner.postgres.jobs.report_params import record_params, update_params
from beacon_runner.postgres.statements import statements

_SQL = statements("claims")
_RESULTS = statements("results")
_FILES = statements("files")
_UPDATES = statements("run_updates")
INPUT_URL_EXPIRES_S = 86_400


class PostgresClaims:
    """The worker's store: claim, then record."""

    def __init__(self, database: Database, *, public_url: str | None = None) -> None:
        """`public_url`: where backends reach the runner's API, if they do."""
        self._database = database
        self._public_url = public_url
        self._unanswered: list[Message] = []  # claims whose answer was lost: their jobs were not started

    async def claim(self, messages: Sequence[Message], worker: str) -> Sequence[ClaimedJob]:
        """Fence the jobs whose message is current; jobs with an outdated message are left out."""
        if self._unanswered:
            await self._uncount_deliveries()
        lanes = {message.job: message.lane for message in messages if is_numbered(message.lane)}
        generations = {message.job: message.generation for message in messages if message.generation != 1}
        jobs = ids([message.job for message in messages])
        values = _by_job(generations) if generations else None, _by_job(lanes) if lanes else None
        try:
            rows = await retried(self._database.fetch, _SQL["claim"], jobs, *values, worker)
            claimed = [_claimed(row) for row in rows]
            named = {job.id: files for job in claimed if (files := files_of_stage(job))}
            return await self._with_files(claimed, named) if named else claimed
        except BaseException:
            self._unanswered += messages
            raise

    async def record(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        """Apply each report whose fence is current, in one transaction; returns the applied jobs.

        At most one report per job.
        """
        ordered = sorted(reports, key=attrgetter("claimed.id.int"))  # one lock order: fewer deadlocks
        values = record_params(ordered)
        retries = [report.claimed.id for report in ordered if isinstance(report.verdict, RetryLater)]
        refunds = [
            report.claimed.id
            for report in ordered
            if report.claimed.front and isinstance(report.verdict, Dead)
        ]
        made = any(run.files for report in ordered for run in report.executions)
        updated = [report for report in ordered if report.updates]
        if not (retries or refunds or made or updated):
            rows = await retried(self._database.fetch, _RESULTS["record"], *values)
            return frozenset(row["id"] for row in rows)

        async def with_consequences() -> frozenset[JobId]:
            async with self._database.transaction() as connection:
                rows = await connection.fetch(_RESULTS["record"], *values)
                applied = frozenset(JobId(row["id"]) for row in rows)
                if made and (outputs := _outputs(ordered, applied)):
                    await add_outputs(connection, outputs)
                if running := [report for report in updated if report.claimed.id in applied]:
                    await connection.execute(_UPDATES["record"], *update_params(running))
                if again := [job for job in retries if job in applied]:
                    await connection.execute(_RESULTS["try_again"], again, False, None)
                if ended := [job for job in refunds if job in applied]:
                    await refund(connection, ended)
            return applied

        return await retried(with_consequences)

    async def _with_files(
        self, jobs: Sequence[ClaimedJob], named: Mapping[JobId, Mapping[FileId, str]]
    ) -> Sequence[ClaimedJob]:
        """With the files that their inputs name."""
        pairs = [(job, file) for job, files in named.items() for file in files]
        used_by, wanted = zip(*pairs, strict=True)
        rows = await retried(self._database.fetch, _FILES["files_of_jobs"], list(used_by), list(wanted))
        found: dict[JobId, dict[str, InputFile]] = {}
        for row in rows:
            one = self._input_file(row)
            found.setdefault(row["used_by"], {})[one.id] = one
        return [
            _with_named(job, named[job.id], found.get(job.id, {})) if job.id in named else job for job in jobs
        ]

    def _input_file(self, row: Any) -> InputFile:
        file, url = file_record(row), None
        if self._public_url is not None:
            expires_unix = row["now_unix"] + INPUT_URL_EXPIRES_S
            url = self._public_url + signed_path(row["secret"], file_target(file.id), expires_unix)
        return InputFile(
            id=encode_id(FILE, file.id),
            object=file.object_name,
            name=file.name,
            content_type=file.content_type,
            bytes=file.size,
            url=url,
        )

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


def _with_named(job: ClaimedJob, named: Mapping[FileId, str], found: Mapping[str, InputFile]) -> ClaimedJob:
    unusable = next((text for text in named.values() if text not in found), None)
    return job._replace(files=found, unusable_file=unusable)


def _outputs(
    reports: Sequence[StageReport], applied: Collection[JobId]
) -> list[tuple[ClaimedJob, int, OutputFile]]:
    """The files that the executions of applied reports have made."""
    return [
        (report.claimed, run.execution.ordinal, file)
        for report in reports
        if report.claimed.id in applied
        for run in report.executions
        for file in run.files
    ]


def _by_job(values: Mapping[JobId, int | str]) -> str:
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
        state=JobState(row["state"]),
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
        RemoteRun.model_validate(one["remote"]) if one["remote"] is not None else None,
    )
