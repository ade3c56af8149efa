"""Reports as parameters of the `record` statement."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, assert_never

import orjson

from beacon_contracts.failures import Failure
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.accounts.usage import tokens_of
from beacon_runner.domain.execution.stage_result import (
    ClaimedJob,
    Dead,
    Deferred,
    EventDraft,
    ExecutionReport,
    Finished,
    NextStage,
    RetryLater,
    Returned,
    RunUpdate,
    StageReport,
    count_executions,
)
from beacon_runner.domain.jobs.events import events_of
from beacon_runner.postgres.database import ids


def record_params(reports: Sequence[StageReport]) -> tuple[Any, ...]:
    """An object, a context and events per job; an object, an output and a response per execution."""
    events = [events_of(report) for report in reports]
    runs = [(report.claimed, run) for report in reports for run in report.executions]
    contexts = [getattr(report.verdict, "context", None) for report in reports]  # None: unchanged
    outputs = [
        orjson.dumps(run.output).decode() if run.stored is None and run.output is not None else run.stored
        for _, run in runs
    ]
    return (
        orjson.dumps(
            [_job_row(report, len(drafts)) for report, drafts in zip(reports, events, strict=True)],
            default=str,
        ),
        [orjson.dumps(context).decode() if context else None for context in contexts],
        orjson.dumps(
            [_execution_row(job, run, output) for (job, run), output in zip(runs, outputs, strict=True)],
            default=str,
        ),
        outputs,
        ids([report.claimed.id for report in reports]),
        [run.response for _, run in runs],
        [encode_events(drafts).decode() if drafts else None for drafts in events],
    )


def update_params(reports: Sequence[StageReport]) -> tuple[Any, ...]:
    """The jobs, the number of events of each, and an object per execution."""
    rows: list[dict[str, Any]] = []
    counts = []
    for report in reports:
        number = 0
        for update in report.updates:
            number += update.progress is not None
            rows.append(_update_row(report.claimed, update, number))
        counts.append(number)
    return [report.claimed.id for report in reports], counts, orjson.dumps(rows, default=str)


def _update_row(job: ClaimedJob, update: RunUpdate, number: int) -> dict[str, Any]:
    planned, progress = update.execution, update.progress
    row = {
        "job_id": job.id,
        "stage": job.stage,
        "item": planned.item,
        "model": planned.model,
        "region": planned.region,
        "attempt": update.attempt,
        "remote": update.remote and update.remote.model_dump(),
    }
    if progress is not None:
        row |= {
            "number": number,
            "progress": {"percent": progress.percent, "message": progress.message},
            "preview": progress.preview,
        }
    return row


def encode_events(drafts: Sequence[EventDraft]) -> bytes:
    return orjson.dumps(
        [
            {"type": draft.type, "data": draft.data} | ({} if draft.at is None else {"at": draft.at})
            for draft in drafts
        ]
    )


def _job_row(report: StageReport, event_count: int) -> dict[str, Any]:
    counts = count_executions(report)
    return {
        "id": report.claimed.id,
        "fence": report.claimed.fence,
        "attempt": report.claimed.attempt,
        "started_at": report.started_at,
        "progressed": any(run.state is not ExecutionState.PENDING for run in report.executions),
        "completed": counts.completed,
        "failed": counts.failed,
        "cancelled": counts.cancelled,
        "event_count": event_count,
        **_verdict_columns(report),
    }


def _verdict_columns(report: StageReport) -> dict[str, Any]:
    verdict = report.verdict
    columns: dict[str, Any]
    match verdict:
        case None:
            started = report.started_at is not None
            columns = {"state": JobState.PROCESSING if started else None, "ongoing": True}
        case Returned():
            columns = {"returned": True}
        case Finished():
            columns = {"state": verdict.state}
        case Dead():
            columns = {
                "state": verdict.state,
                "failure": _document(verdict.failure),
                "reason": verdict.reason,
            }
        case NextStage():
            columns = {"state": JobState.QUEUED, "attempt": 1, "advance": 1, "requeue": True}
        case RetryLater():
            columns = {
                "state": JobState.RETRYING,
                "attempt": report.claimed.attempt + 1,
                "requeue": True,
                "delay_s": verdict.delay_s,
                "failure": _document(verdict.failure),
            }
        case Deferred():
            columns = {
                "state": JobState.QUEUED,
                "requeue": True,
                "delay_s": verdict.delay_s,
                "deferred": asdict(verdict),
            }
        case _:
            assert_never(verdict)
    return columns


def _execution_row(job: ClaimedJob, run: ExecutionReport, output: str | None) -> dict[str, Any]:
    planned, timing = run.execution, run.timing
    row = {
        "job_id": job.id,
        "stage": job.stage,
        "ordinal": planned.ordinal,
        "attempt": run.attempt,
        "state": run.state,
        "item": planned.item,
        "model": planned.model,
        "region": planned.region,
        "actual_region": run.actual_region,
        "backend": run.backend,
        "failure": run.failure and _document(run.failure),
        "started_at": run.started_at,
        "finished_at": run.finished_at,
    }
    if timing is not None:
        row |= {"queued_s": timing.queued_s, "load_s": timing.load_s, "run_s": timing.run_s}
    if output is not None:
        row["output_bytes"] = len(output) + sum(file.bytes for file in run.files)
    if run.usage:
        row["tokens_in"], row["tokens_out"] = tokens_of(run.usage)
    return row


def _document(failure: Failure) -> dict[str, Any]:
    return failure.model_dump(mode="json", exclude_none=True)
