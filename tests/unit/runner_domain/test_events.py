from typing import Any

import pytest

from beacon_contracts.ids import encode_execution_id
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.execution.plan import stage_plan
from beacon_runner.domain.execution.stage_result import (
    ClaimedJob,
    Dead,
    Deferred,
    ExecutionReport,
    Finished,
    NextStage,
    RetryLater,
    Returned,
    StageReport,
    Verdict,
)
from beacon_runner.domain.jobs.events import events_of
from tests.unit.runner_domain.factories import (
    JOB,
    NOW,
    claimed,
    completed,
    failed,
    failure,
    matrix_spec,
    pipeline_spec,
)

GENERATION = {"model": "m", "region": "US", "input": {}}


def types(report: StageReport) -> list[str]:
    return [str(event.type) for event in events_of(report)]


def only(job: ClaimedJob) -> Any:
    return stage_plan(job.spec, job.stage, job.context)[0]


def test_a_generation_in_one_report_has_all_events() -> None:
    job = claimed(GENERATION)
    report = StageReport(job, (completed(only(job)),), verdict=Finished(JobState.COMPLETED, {}))
    assert types(report) == ["EXECUTION_START", "EXECUTION_COMPLETE", "JOB_COMPLETE"]
    start, complete, _ = events_of(report)
    assert start.at == NOW
    assert complete.data["execution_id"] == encode_execution_id(JOB, 0, 0)


def test_a_reported_start_has_one_event() -> None:
    job = claimed(GENERATION)
    started = StageReport(
        job, (ExecutionReport(only(job), ExecutionState.RUNNING, 1, started_at=NOW.timestamp()),)
    )
    ended = StageReport(job, (completed(only(job), start_reported=True),))
    assert types(started) == ["EXECUTION_START"]
    assert types(ended) == ["EXECUTION_COMPLETE"]


def test_a_pipeline_has_events_of_its_steps() -> None:
    job = claimed(pipeline_spec())
    report = StageReport(job, (completed(only(job)),), verdict=NextStage({}))
    assert types(report) == ["STEP_START", "EXECUTION_START", "EXECUTION_COMPLETE", "STEP_COMPLETE"]
    assert events_of(report)[0].data == {"step": "enhance", "stage": 0, "stages": 2}


def test_the_event_of_a_failure_has_item_and_region() -> None:
    job = claimed(matrix_spec())
    report = StageReport(job, (failed(only(job), retryable=True),))
    event = events_of(report)[-1]
    assert event.type == "EXECUTION_FAILED"
    assert event.data["failure"]["code"] == "boom"
    assert event.data["region"] == "US"


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Finished(JobState.COMPLETED, {}), ["JOB_COMPLETE"]),
        (RetryLater(60.0, failure(retryable=True)), ["JOB_RETRYING"]),
        (Deferred(2.0, "the router is full"), ["WAITING"]),
        (Dead(JobState.PARTIAL, "permanent", failure(retryable=False), {}), ["JOB_PARTIAL"]),
        (Dead(JobState.FAILED, "permanent", failure(retryable=False), {}), ["JOB_FAILED"]),
        (Returned(), []),
    ],
)
def test_each_verdict_has_its_event(verdict: Verdict, expected: list[str]) -> None:
    assert types(StageReport(claimed(matrix_spec()), verdict=verdict)) == expected


def test_a_wait_for_the_router_has_an_event_per_reason() -> None:
    job = claimed(matrix_spec(), deferred=Deferred(2.0, "full", times=3))
    again = StageReport(job, verdict=Deferred(4.0, "full", times=4))
    other = StageReport(job, verdict=Deferred(4.0, "away", times=4))
    anew = StageReport(job, verdict=Deferred(4.0, "full", times=1))
    assert [types(report) for report in (again, other, anew)] == [[], ["WAITING"], ["WAITING"]]
