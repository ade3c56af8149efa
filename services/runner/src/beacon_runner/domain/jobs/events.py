"""The events of a report."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, assert_never

from beacon_contracts.events import EventType
from beacon_contracts.ids import encode_execution_id
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.execution.plan import ENDED, step_name
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
    StageReport,
    Verdict,
)

_END_EVENTS = {
    JobState.COMPLETED: EventType.JOB_COMPLETE,
    JobState.PARTIAL: EventType.JOB_PARTIAL,
    JobState.FAILED: EventType.JOB_FAILED,
    JobState.CANCELLED: EventType.JOB_CANCELLED,
    JobState.EXPIRED: EventType.JOB_EXPIRED,
}


def events_of(report: StageReport) -> list[EventDraft]:
    """In the order in which they happened."""
    drafts: list[EventDraft] = []
    step = step_name(report.claimed.spec, report.claimed.stage)
    for execution in report.executions:
        drafts += _execution_events(report.claimed, execution, step)
    if report.verdict is not None:
        drafts += _verdict_events(report.claimed, report.verdict, step)
    return drafts


def _execution_events(job: ClaimedJob, report: ExecutionReport, step: str | None) -> list[EventDraft]:
    execution = report.execution
    data = {
        "execution_id": encode_execution_id(job.id, job.stage, execution.ordinal),
        "item": execution.item,
        "model": execution.model,
        "region": execution.region,
        "attempt": report.attempt,
    }
    drafts = []
    if report.state is ExecutionState.QUEUED:
        drafts.append(EventDraft(EventType.EXECUTION_QUEUED, data))
    if report.started_at is not None and not report.start_reported:
        at = datetime.fromtimestamp(report.started_at, UTC)
        if step is not None:
            drafts.append(EventDraft(EventType.STEP_START, _step(job, step), at))
        drafts.append(EventDraft(EventType.EXECUTION_START, data, at))
    if report.state not in ENDED:
        return drafts
    if report.backend is not None:
        data = data | {"actual_region": report.actual_region, "backend": report.backend}
    if report.state is ExecutionState.COMPLETED:
        drafts.append(EventDraft(EventType.EXECUTION_COMPLETE, data))
    else:
        drafts.append(EventDraft(EventType.EXECUTION_FAILED, data | _failure(report)))
    return drafts


def _verdict_events(job: ClaimedJob, verdict: Verdict, step: str | None) -> Iterator[EventDraft]:
    match verdict:
        case NextStage():
            yield EventDraft(EventType.STEP_COMPLETE, _step(job, step))
        case Finished():
            if step is not None:
                yield EventDraft(EventType.STEP_COMPLETE, _step(job, step))
            yield EventDraft(_END_EVENTS[verdict.state])
        case RetryLater():
            failure = verdict.failure.model_dump(mode="json", exclude_none=True)
            data = {"attempt": job.attempt, "delay_s": round(verdict.delay_s, 3), "failure": failure}
            yield EventDraft(EventType.JOB_RETRYING, data)
        case Deferred():
            if job.deferred is None or verdict.times == 1 or job.deferred.reason != verdict.reason:
                data = {"reason": verdict.reason, "delay_s": round(verdict.delay_s, 3)}
                yield EventDraft(EventType.WAITING, data)
        case Dead():
            failure = verdict.failure.model_dump(mode="json", exclude_none=True)
            yield EventDraft(_END_EVENTS[verdict.state], {"reason": verdict.reason, "failure": failure})
        case Returned():
            pass
        case _:
            assert_never(verdict)


def _failure(report: ExecutionReport) -> dict[str, Any]:
    if report.failure is None:
        return {"state": report.state}
    return {"failure": report.failure.model_dump(mode="json", exclude_none=True)}


def _step(job: ClaimedJob, step: str | None) -> Mapping[str, Any]:
    return {"step": step, "stage": job.stage, "stages": job.stages}
