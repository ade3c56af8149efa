from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.execution.plan import pending_executions, stage_plan
from beacon_runner.domain.execution.retry_policy import RetryPolicy
from beacon_runner.domain.execution.stage_result import (
    ClaimedJob,
    Dead,
    ExecutionReport,
    Finished,
    NextStage,
    PlannedExecution,
    RetryLater,
)
from beacon_runner.domain.execution.verdict import (
    ATTEMPTS_USED_UP,
    PERMANENT,
    POISON,
    StageVerdict,
    UnfinishedStageError,
    decide,
    defer,
    poison_verdict,
)
from beacon_runner.domain.jobs.states import JOB_TRANSITIONS, JobTransition
from tests.unit.runner_domain.factories import (
    claimed,
    completed,
    failed,
    failure,
    known,
    matrix_spec,
    pipeline_spec,
)

POLICY = RetryPolicy()


def judge(job: ClaimedJob, reports: Sequence[ExecutionReport], chance: float = 0.0) -> StageVerdict:
    return decide(job, stage_plan(job.spec, job.stage, job.context), reports, POLICY, chance)


def reports_of(job: ClaimedJob, *outcomes: str) -> list[ExecutionReport]:
    plan = stage_plan(job.spec, job.stage, job.context)
    made: dict[str, Callable[[PlannedExecution], ExecutionReport]] = {
        "ok": completed,
        "later": lambda one: failed(one, retryable=True, code="busy"),
        "never": lambda one: failed(one, retryable=False, code="refused"),
    }
    return [made[outcome](execution) for outcome, execution in zip(outcomes, plan, strict=True)]


def test_a_stage_in_which_all_completed_finishes_the_job() -> None:
    job = claimed(matrix_spec())
    assert judge(job, reports_of(job, "ok", "ok", "ok", "ok")) == Finished(JobState.COMPLETED, {})


def test_an_empty_output_is_completed() -> None:
    job = claimed({"model": "m", "region": "US", "input": {}})
    (execution,) = stage_plan(job.spec, 0, {})
    empty: list[Any] = ["", None, [], {}]
    for nothing in empty:
        assert judge(job, [completed(execution, nothing)]) == Finished(JobState.COMPLETED, {})


def test_no_verdict_is_given_while_an_execution_is_open() -> None:
    job = claimed(matrix_spec())
    with pytest.raises(UnfinishedStageError):
        judge(job, reports_of(job, "ok", "ok", "ok", "ok")[:3])


def test_an_execution_waiting_for_its_retry_is_not_done() -> None:
    """83 seconds too early: in-progress retries were once counted as done."""
    job = claimed(matrix_spec(), recorded_executions=(known(3, ExecutionState.PENDING, attempt=2),))
    with pytest.raises(UnfinishedStageError):
        judge(job, reports_of(job, "ok", "ok", "ok", "ok")[:3])


def test_results_of_earlier_deliveries_count() -> None:
    done = tuple(known(ordinal, ExecutionState.COMPLETED) for ordinal in range(3))
    job = claimed(matrix_spec(), recorded_executions=done)
    assert isinstance(judge(job, reports_of(job, "ok", "ok", "ok", "ok")[3:]), Finished)


@pytest.mark.parametrize(("attempt", "delay_s"), [(1, 60.0), (2, 120.0), (3, 180.0)])
def test_retryable_failures_are_retried_after_1_2_and_3_minutes(attempt: int, delay_s: float) -> None:
    job = claimed(matrix_spec(), attempt=attempt)
    verdict = judge(job, reports_of(job, "ok", "later", "ok", "ok"))
    assert isinstance(verdict, RetryLater)
    assert verdict.delay_s == delay_s


def test_after_three_retries_a_job_with_results_is_partial() -> None:
    job = claimed(matrix_spec(), attempt=4)
    verdict = judge(job, reports_of(job, "ok", "later", "ok", "never"))
    assert isinstance(verdict, Dead)
    assert (verdict.state, verdict.reason, verdict.failure.code) == (
        JobState.PARTIAL,
        ATTEMPTS_USED_UP,
        "busy",
    )


def test_permanent_failures_are_dead_at_once() -> None:
    job = claimed(matrix_spec())
    verdict = judge(job, reports_of(job, "never", "never", "never", "never"))
    assert isinstance(verdict, Dead)
    assert (verdict.state, verdict.reason) == (JobState.FAILED, PERMANENT)


def test_some_completed_and_the_rest_permanently_failed_is_partial() -> None:
    job = claimed(matrix_spec())
    verdict = judge(job, reports_of(job, "ok", "never", "ok", "never"))
    assert isinstance(verdict, Dead)
    assert verdict.state is JobState.PARTIAL


def test_an_execution_cancelled_at_the_router_is_not_completed() -> None:
    job = claimed({"model": "m", "region": "US", "input": {}})
    (execution,) = stage_plan(job.spec, 0, {})
    verdict = judge(job, [ExecutionReport(execution, ExecutionState.CANCELLED, 1)])
    assert isinstance(verdict, Dead)
    assert verdict.failure.code == "cancelled"


def test_a_completed_step_passes_its_result_on() -> None:
    job = claimed(pipeline_spec())
    verdict = judge(job, [completed(stage_plan(job.spec, 0, {})[0], {"text": "x"})])
    assert verdict == NextStage({"enhance": {"text": "x"}})


def test_a_step_whose_result_was_recorded_before_a_crash_is_not_run_again() -> None:
    job = claimed(
        pipeline_spec(), recorded_executions=(known(0, ExecutionState.COMPLETED, output={"text": "x"}),)
    )
    assert pending_executions(stage_plan(job.spec, 0, {}), job.recorded_executions) == []
    assert judge(job, []) == NextStage({"enhance": {"text": "x"}})


def test_the_last_step_finishes_the_job_with_every_result_in_its_context() -> None:
    job = claimed(pipeline_spec(), stage=1, context={"enhance": {"text": "x"}})
    verdict = judge(job, [completed(stage_plan(job.spec, 1, job.context)[0], {"url": "u"})])
    assert verdict == Finished(JobState.COMPLETED, {"enhance": {"text": "x"}, "draw": {"url": "u"}})


@pytest.mark.parametrize(("attempt", "kind"), [(1, RetryLater), (2, RetryLater), (3, Dead)])
def test_attempts_are_counted_per_step(attempt: int, kind: type[Any]) -> None:
    job = claimed(pipeline_spec(attempts=3), stage=1, attempt=attempt, context={"enhance": {"text": "x"}})
    (execution,) = stage_plan(job.spec, 1, job.context)
    verdict = judge(job, [failed(execution, retryable=True)])
    assert isinstance(verdict, kind)


@pytest.mark.parametrize(("stage", "state"), [(0, JobState.FAILED), (1, JobState.PARTIAL)])
def test_a_pipeline_that_fails_after_finished_steps_is_partial(stage: int, state: JobState) -> None:
    job = claimed(pipeline_spec(), stage=stage, context={"enhance": {"text": "x"}})
    (execution,) = stage_plan(job.spec, stage, job.context)
    verdict = judge(job, [failed(execution, retryable=False)])
    assert isinstance(verdict, Dead)
    assert (verdict.state, verdict.context) == (state, job.context)


outcomes = st.lists(st.sampled_from(["ok", "later", "never"]), min_size=4, max_size=4)


@given(outcomes, st.integers(min_value=1, max_value=6), st.floats(min_value=0, max_value=1, exclude_max=True))
def test_every_ended_stage_has_one_verdict(chosen: list[str], attempt: int, chance: float) -> None:
    job = claimed(matrix_spec(), attempt=attempt)
    verdict = judge(job, reports_of(job, *chosen), chance)
    if set(chosen) == {"ok"}:
        assert isinstance(verdict, Finished)
    elif "later" in chosen and attempt <= POLICY.retries:
        assert isinstance(verdict, RetryLater)
        planned = POLICY.delays_s[attempt - 1]
        assert planned <= verdict.delay_s <= planned * (1 + POLICY.jitter)
    else:
        assert isinstance(verdict, Dead)
        assert verdict.state is (JobState.PARTIAL if "ok" in chosen else JobState.FAILED)
        assert verdict.failure.retryable is ("later" in chosen)


def test_delays_of_a_deferred_job_grow() -> None:
    job, waits = claimed(matrix_spec()), []
    for _ in range(10):
        verdict = defer(job, 2.0, "full", POLICY.router, 0.0, progressed=False)
        waits.append(verdict.delay_s)
        job = job._replace(deferred=verdict)
    assert waits == [2.0, 2.0, 2.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert defer(job, 90.0, "full", POLICY.router, 0.0, progressed=False).delay_s == 60.0  # the bound
    assert 60.0 < defer(job, 2.0, "full", POLICY.router, 0.9, progressed=False).delay_s <= 75.0  # spread
    anew = defer(job, 2.0, "full", POLICY.router, 0.0, progressed=True)
    assert (anew.delay_s, anew.times) == (2.0, 1)


def test_the_last_delay_repeats_when_there_are_more_retries_than_delays() -> None:
    policy = RetryPolicy(retries=5, delays_s=(1.0, 2.0), jitter=0.0)
    assert [policy.delay_s(attempt, 0.5) for attempt in (1, 2, 3, 4)] == [1.0, 2.0, 2.0, 2.0]


def test_a_known_permanent_failure_is_kept_when_the_rest_comes_in_later() -> None:
    refused = known(0, ExecutionState.FAILED, failure=failure(retryable=False))
    job = claimed(matrix_spec(), attempt=2, recorded_executions=(refused,))
    verdict = judge(job, reports_of(job, "never", "ok", "ok", "ok")[1:])
    assert isinstance(verdict, Dead)
    assert verdict.state is JobState.PARTIAL


@pytest.mark.parametrize(("deliveries", "poison"), [(1, False), (5, False), (6, True)])
def test_too_many_deliveries_without_progress_are_poison(deliveries: int, poison: bool) -> None:
    verdict = poison_verdict(claimed(matrix_spec(), deliveries=deliveries), 5)
    assert (verdict is not None) is poison


@pytest.mark.parametrize(
    ("recorded", "state"),
    [
        ((), JobState.FAILED),
        ((known(0, ExecutionState.RUNNING),), JobState.FAILED),
        ((known(0, ExecutionState.COMPLETED),), JobState.PARTIAL),
    ],
)
def test_poison_ends_a_job_as_failed_or_partial(recorded: Any, state: JobState) -> None:
    verdict = poison_verdict(claimed(matrix_spec(), deliveries=6, recorded_executions=recorded), 5)
    assert verdict is not None
    assert (verdict.state, verdict.reason, verdict.failure.retryable) == (state, POISON, False)
    assert (JobState.PROCESSING, verdict.state) in JOB_TRANSITIONS[JobTransition.POISON]


def test_poison_in_a_later_step_is_partial() -> None:
    verdict = poison_verdict(claimed(pipeline_spec(), stage=1, deliveries=6), 5)
    assert verdict is not None
    assert verdict.state is JobState.PARTIAL
