"""Reports as arrays: one array per column, one place per row."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, assert_never

import orjson

from beacon_contracts.failures import Failure
from beacon_contracts.jobs import JobState
from beacon_runner.domain.events import events_of
from beacon_runner.domain.plan import GENERATION_ITEM, ended
from beacon_runner.domain.stage_result import (
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
)
from beacon_runner.postgres.arrays import ids, numbers

Columns = tuple[list[Any], ...]


@dataclass(frozen=True, slots=True)
class _Change:
    """What a verdict does to the job's row."""

    state: JobState
    attempt: int
    advance: int = 0
    requeue: bool = False
    returned: bool = False
    delay_s: float | None = None
    context: Any = None
    failure: Failure | None = None
    reason: str | None = None
    postponed: Any = None


def single_columns(reports: Sequence[StageReport]) -> tuple[Any, ...]:
    """For generations of one fence: how many, the name that their executions share, the columns as texts, and
    once each where they ran."""
    runs = [report.executions[0] for report in reports]
    shared: dict[tuple[Any, ...], int] = {}
    places = [shared.setdefault(_where(run), len(shared) + 1) for run in runs]
    return (
        len(reports),
        GENERATION_ITEM,
        ids([report.claimed.id for report in reports]),
        reports[0].claimed.fence,
        numbers(places if len(shared) > 1 else []),
        "\n".join([run.stored or _stored(run) or "" for run in runs]),  # JSON of one line each
        numbers([run.started_at for run in runs]),
        numbers([run.finished_at for run in runs]),
        *map(numbers, _seconds(runs)),
        *map(list, zip(*shared, strict=True)),
    )


def _where(run: ExecutionReport) -> tuple[Any, ...]:
    return run.execution.model, run.execution.region, run.actual_region, run.backend


def job_columns(reports: Sequence[StageReport]) -> Columns:
    changes = [_change(report) for report in reports]
    events = [events_of(report) for report in reports]
    return (
        [report.job for report in reports],
        [report.fence for report in reports],
        [change.state for change in changes],
        [change.advance for change in changes],
        [change.attempt for change in changes],
        [change.requeue for change in changes],
        [change.returned for change in changes],
        [change.delay_s for change in changes],
        [change.context or None for change in changes],
        [_document(change.failure) for change in changes],
        [change.reason for change in changes],
        [len(drafts) for drafts in events],
        [encode_events(drafts) for drafts in events],
        [any(ended(run.state) for run in report.executions) for report in reports],
        [change.postponed for change in changes],
    )


def newest(reports: Sequence[StageReport]) -> list[tuple[ClaimedJob, ExecutionReport]]:
    """The last report of each execution: a statement can change a row only once."""
    found = {
        (report.job, execution.execution.ordinal): (report.claimed, execution)
        for report in reports
        for execution in report.executions
    }
    return list(found.values())


def execution_columns(executions: Sequence[tuple[ClaimedJob, ExecutionReport]]) -> Columns:
    runs = [run for _, run in executions]
    planned = [run.execution for run in runs]
    return (
        [job.id for job, _ in executions],
        [job.stage for job, _ in executions],
        [execution.ordinal for execution in planned],
        [run.attempt for run in runs],
        [run.state for run in runs],
        [execution.item for execution in planned],
        [execution.model for execution in planned],
        [execution.region for execution in planned],
        [run.actual_region for run in runs],
        [run.backend for run in runs],
        [None if stored is None else stored.encode() for stored in map(_stored, runs)],
        [_document(run.failure) for run in runs],
        [run.started_at for run in runs],
        [run.finished_at for run in runs],
        *_seconds(runs),
    )


def encode_events(drafts: Sequence[EventDraft]) -> bytes:
    return orjson.dumps([_event(draft) for draft in drafts])


def _event(draft: EventDraft) -> dict[str, Any]:
    document: dict[str, Any] = {"type": draft.type, "data": draft.data}
    if draft.at is not None:
        document["at"] = draft.at
    return document


def _seconds(runs: Sequence[ExecutionReport]) -> Columns:
    """Empty where nothing was timed: `unnest` fills short columns up, and the driver looks at every value."""
    timings = [run.timing for run in runs]
    if not any(timings):
        return [], [], []
    return (
        [None if timing is None else timing.queued_s for timing in timings],
        [None if timing is None else timing.load_s for timing in timings],
        [None if timing is None else timing.run_s for timing in timings],
    )


def _stored(run: ExecutionReport) -> str | None:
    if run.stored is not None or run.output is None:
        return run.stored
    return orjson.dumps(run.output).decode()


def _document(failure: Failure | None) -> Any:
    return None if failure is None else failure.model_dump(mode="json", exclude_none=True)


def _change(report: StageReport) -> _Change:
    attempt, verdict = report.claimed.attempt, report.verdict
    match verdict:
        case None:
            return _Change(JobState.PROCESSING, attempt)
        case Returned():
            return _Change(JobState.QUEUED, attempt, returned=True)
        case Finished() | Dead():
            return _ending(verdict, attempt)
        case NextStage() | RetryLater() | Deferred():
            return _requeueing(verdict, attempt)
        case _:
            assert_never(verdict)


def _ending(verdict: Finished | Dead, attempt: int) -> _Change:
    if isinstance(verdict, Finished):
        return _Change(verdict.state, attempt, context=verdict.context)
    return _Change(
        verdict.state, attempt, context=verdict.context, failure=verdict.failure, reason=verdict.reason
    )


def _requeueing(verdict: NextStage | RetryLater | Deferred, attempt: int) -> _Change:
    match verdict:
        case NextStage():
            return _Change(JobState.QUEUED, 1, advance=1, requeue=True, context=verdict.context)
        case RetryLater():
            return _Change(
                JobState.RETRYING,
                attempt + 1,
                requeue=True,
                delay_s=verdict.delay_s,
                failure=verdict.failure,
            )
        case Deferred():
            postponed = asdict(verdict)
            return _Change(
                JobState.QUEUED, attempt, requeue=True, delay_s=verdict.delay_s, postponed=postponed
            )
