"""Commands by the state of the job, decided without a database."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.errors import (
    AlreadySkippedError,
    JobStateError,
    NotRetryableError,
    RetriesExhaustedError,
)
from beacon_runner.domain.execution.retry_policy import RetryPolicy
from beacon_runner.domain.jobs.commands import decide_cancel, decide_resume, decide_retry, decide_skip
from beacon_runner.domain.jobs.records import AttemptRecord, ExecutionRecord, JobHead, JobRecord
from beacon_runner.domain.jobs.states import LIVE, TERMINAL, WAITING

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = RetryPolicy(3, (60.0, 120.0, 180.0))
RETRYABLE = Failure(code="busy", stage=FailureStage.RUN, retryable=True, message="busy")
PERMANENT = Failure(code="refused", stage=FailureStage.RUN, retryable=False, message="refused")
ENDED = [JobState.FAILED, JobState.PARTIAL]


def job(state: JobState, *, attempt: int = 1, failure: Failure | None = None, **changes: Any) -> JobRecord:
    head = JobHead(
        JobId(UUID(int=1)),
        UserId(UUID(int=2)),
        "generation",
        "",
        state,
        "free",
        JobClass.LOW,
        0,
        1,
        attempt,
        1,
        0,
        0,
        0,
        failure,
        NOW,
        None,
        None,
    )
    fields: dict[str, Any] = {
        "spec": {"model": "flux", "region": "US", "input": {}},
        "context": {},
        "original_class": JobClass.LOW,
        "lane": "a",
        "front": False,
        "generation": 1,
        "fence": 0,
        "event_seq": 1,
        "price_paid": 0,
        "next_attempt_at": None,
        "deferred": False,
        "promoted_at": None,
        "claimed": state is JobState.PROCESSING,
    }
    return JobRecord(head, **fields | changes)


def execution(state: ExecutionState, failure: Failure | None = None, retries: int = 0) -> ExecutionRecord:
    attempt = AttemptRecord(1, state, None, None, failure, None, None, None)
    return ExecutionRecord(0, 0, None, attempt, retries)


@pytest.mark.parametrize("state", sorted(LIVE))
def test_every_live_job_can_be_cancelled(state: JobState) -> None:
    decision = decide_cancel(job(state, fence=4))
    assert decision is not None
    assert (decision.at_router, decision.refund) == (True, state in WAITING)


def test_a_job_that_was_never_claimed_is_at_no_router() -> None:
    decision = decide_cancel(job(JobState.QUEUED, fence=0))
    assert decision is not None
    assert not decision.at_router


def test_cancelling_twice_decides_nothing() -> None:
    assert decide_cancel(job(JobState.CANCELLED)) is None


@pytest.mark.parametrize("state", sorted(TERMINAL - {JobState.CANCELLED}))
def test_a_job_that_has_ended_cannot_be_cancelled(state: JobState) -> None:
    with pytest.raises(JobStateError) as refused:
        decide_cancel(job(state))
    assert refused.value.state is state


@pytest.mark.parametrize("state", sorted(JobState))
def test_only_failed_expired_and_scheduled_jobs_can_be_resumed(state: JobState) -> None:
    if state in {*ENDED, JobState.EXPIRED, JobState.SCHEDULED}:
        decide_resume(job(state, failure=RETRYABLE, next_attempt_at=NOW))
    else:
        with pytest.raises(JobStateError):
            decide_resume(job(state, failure=RETRYABLE))


def test_a_job_that_waits_for_a_limit_is_not_started_by_a_resume() -> None:
    with pytest.raises(JobStateError, match="limit"):
        decide_resume(job(JobState.SCHEDULED))


@pytest.mark.parametrize("failure", [PERMANENT, None])
def test_a_permanent_failure_cannot_be_resumed(failure: Failure | None) -> None:
    with pytest.raises(NotRetryableError):
        decide_resume(job(JobState.FAILED, failure=failure))


@pytest.mark.parametrize("state", ENDED)
def test_a_retry_queues_an_ended_job_as_its_last_attempt(state: JobState) -> None:
    decision = decide_retry(job(state), execution(ExecutionState.FAILED, RETRYABLE, retries=1), POLICY)
    assert (decision.run, decision.retry_attempt, decision.max_attempts) == (True, 2, 3)
    assert decision.attempt == POLICY.retries + 1


def test_a_retry_of_a_queued_job_does_not_queue_it_again() -> None:
    decision = decide_retry(job(JobState.QUEUED), execution(ExecutionState.FAILED, RETRYABLE), POLICY)
    assert (decision.run, decision.attempt) == (True, None)


def test_a_retry_during_the_backoff_starts_the_next_attempt_now() -> None:
    in_backoff = job(JobState.RETRYING, attempt=2, deferred=True)
    decision = decide_retry(in_backoff, execution(ExecutionState.PENDING, retries=1), POLICY)
    assert (decision.run, decision.attempt, decision.retry_attempt) == (True, 2, 2)


def test_a_job_whose_next_attempt_is_due_is_not_queued_again() -> None:
    due = job(JobState.RETRYING, attempt=2, deferred=False)
    assert not decide_retry(due, execution(ExecutionState.PENDING), POLICY).run


def test_retries_during_the_backoff_are_limited() -> None:
    in_backoff = job(JobState.RETRYING, attempt=2, deferred=True)
    with pytest.raises(RetriesExhaustedError):
        decide_retry(in_backoff, execution(ExecutionState.PENDING, retries=3), POLICY)


@pytest.mark.parametrize("state", [ExecutionState.COMPLETED, ExecutionState.PENDING, ExecutionState.RUNNING])
def test_completed_or_running_executions_do_not_run_again(state: ExecutionState) -> None:
    decision = decide_retry(job(JobState.PROCESSING), execution(state), POLICY)
    assert (decision.state, decision.run) == (state, False)


def test_the_retries_of_a_user_are_limited() -> None:
    with pytest.raises(RetriesExhaustedError) as refused:
        decide_retry(job(JobState.FAILED), execution(ExecutionState.FAILED, RETRYABLE, retries=3), POLICY)
    assert (refused.value.retry_attempt, refused.value.max_attempts) == (3, 3)


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.FAILED])
def test_an_execution_that_never_ran_cannot_be_retried_alone(state: JobState) -> None:
    with pytest.raises(JobStateError):
        decide_retry(job(state), None, POLICY)


def test_a_permanent_failure_cannot_be_retried() -> None:
    with pytest.raises(NotRetryableError):
        decide_retry(job(JobState.FAILED), execution(ExecutionState.FAILED, PERMANENT), POLICY)


def test_a_processing_job_retries_its_own_failures() -> None:
    failed = execution(ExecutionState.FAILED, RETRYABLE)
    assert not decide_retry(job(JobState.PROCESSING, attempt=1), failed, POLICY).run
    with pytest.raises(JobStateError):
        decide_retry(job(JobState.PROCESSING, attempt=4), failed, POLICY)


@pytest.mark.parametrize("state", sorted(JobState))
def test_only_jobs_in_a_queue_can_be_skipped_ahead(state: JobState) -> None:
    if state in WAITING:
        decision = decide_skip(job(state, next_attempt_at=NOW), 3, JobClass.HIGH)
        assert (decision.price, decision.job_class) == (3, JobClass.HIGH)
    else:
        with pytest.raises(JobStateError):
            decide_skip(job(state), 3, JobClass.HIGH)


def test_a_job_that_waits_at_a_router_is_queued_in_front() -> None:
    claimed = job(JobState.QUEUED, claimed=True)
    decision = decide_skip(claimed, 3, JobClass.HIGH, waits_at_router=True)
    assert (decision.price, decision.requeue) == (3, True)
    with pytest.raises(JobStateError, match="does not wait at a router"):
        decide_skip(claimed, 3, JobClass.HIGH, waits_at_router=False)
    for state in (JobState.PROCESSING, JobState.COMPLETED):
        with pytest.raises(JobStateError):
            decide_skip(job(state), 3, JobClass.HIGH, waits_at_router=True)


def test_a_deferred_job_cannot_be_skipped_ahead() -> None:
    with pytest.raises(JobStateError):
        decide_skip(job(JobState.RETRYING, deferred=True), 3, JobClass.HIGH)


def test_a_job_is_skipped_ahead_once() -> None:
    with pytest.raises(AlreadySkippedError):
        decide_skip(job(JobState.QUEUED, front=True), 3, JobClass.HIGH)
