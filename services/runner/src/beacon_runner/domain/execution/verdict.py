"""The verdict on a job at the end of a stage: next stage, finished, retry, deferred or dead."""

from collections.abc import Sequence

from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.execution.plan import ENDED, step_name
from beacon_runner.domain.execution.retry_policy import RetryPolicy, RouterBackoff, allowed_attempts
from beacon_runner.domain.execution.stage_result import (
    ClaimedJob,
    Dead,
    Deferred,
    ExecutionReport,
    Finished,
    NextStage,
    PlannedExecution,
    RecordedExecution,
    RetryLater,
)
from beacon_runner.domain.jobs.states import JobTransition, move

PERMANENT = "permanent_failure"
ATTEMPTS_USED_UP = "attempts_used_up"
POISON = "poison"


class UnfinishedStageError(Exception):
    """A verdict was asked for while executions of the stage had not ended."""


Ended = RecordedExecution | ExecutionReport
StageVerdict = NextStage | Finished | RetryLater | Dead


def decide(
    job: ClaimedJob,
    plan: Sequence[PlannedExecution],
    reports: Sequence[ExecutionReport],
    policy: RetryPolicy,
    chance: float,
) -> StageVerdict:
    """The verdict on a stage in which everything has ended, in this delivery or in an earlier one."""
    outcomes = _outcomes(job, plan, reports)
    failures = [_failure(one) for one in outcomes if one.state is not ExecutionState.COMPLETED]
    if not failures:
        step = step_name(job.spec, job.stage)
        context = job.context if step is None else {**job.context, step: outcomes[0].output}
        if job.stage + 1 < job.stages:
            return NextStage(context)
        return Finished(move(JobTransition.ALL_COMPLETED, JobState.PROCESSING, JobState.COMPLETED), context)
    retryable = [failure for failure in failures if failure.retryable]
    if retryable and job.attempt < allowed_attempts(job.spec, job.stage, policy):
        return RetryLater(policy.delay_s(job.attempt, chance), retryable[0])
    some_completed = len(failures) < len(plan)
    # A retryable failure is preferred: it shows the user that a resume makes sense.
    if retryable:
        return dead_verdict(job, ATTEMPTS_USED_UP, retryable[0], some_completed=some_completed)
    return dead_verdict(job, PERMANENT, failures[0], some_completed=some_completed)


def dead_verdict(job: ClaimedJob, reason: str, failure: Failure, *, some_completed: bool) -> Dead:
    """Ends a job that is not retried automatically.

    It is partial when an execution completed: in this stage, or in earlier ones, which are all complete.
    """
    if some_completed or job.stage > 0:
        transition, state = JobTransition.SOME_FAILED, JobState.PARTIAL
    else:
        transition, state = JobTransition.ALL_FAILED, JobState.FAILED
    if reason == POISON:
        transition = JobTransition.POISON
    return Dead(move(transition, job.state, state), reason, failure, job.context)


def defer(
    job: ClaimedJob,
    requested_s: float | None,
    reason: str,
    backoff: RouterBackoff,
    chance: float,
    *,
    progressed: bool,
) -> Deferred:
    """The verdict when the router did not accept all executions; after progress the count restarts."""
    before = job.deferred.times if job.deferred is not None and not progressed else 0
    return Deferred(backoff.delay_s(before + 1, requested_s, chance), reason, before + 1)


def poison_verdict(job: ClaimedJob, max_deliveries: int) -> Dead | None:
    """A job delivered too often in a row without progress is not run again: it may kill its workers."""
    if job.deliveries <= max_deliveries:
        return None
    failure = Failure(
        code=POISON,
        stage=FailureStage.RUN,
        retryable=False,
        message=f"delivered to workers {max_deliveries} times without progress",
    )
    some_completed = any(one.state is ExecutionState.COMPLETED for one in job.recorded_executions)
    return dead_verdict(job, POISON, failure, some_completed=some_completed)


def _outcomes(
    job: ClaimedJob, plan: Sequence[PlannedExecution], reports: Sequence[ExecutionReport]
) -> list[Ended]:
    newest: dict[int, Ended] = {recorded.ordinal: recorded for recorded in job.recorded_executions}
    newest |= {report.execution.ordinal: report for report in reports}
    open_ordinals = [
        execution.ordinal
        for execution in plan
        if execution.ordinal not in newest or newest[execution.ordinal].state not in ENDED
    ]
    if open_ordinals:
        raise UnfinishedStageError(f"executions {open_ordinals[:10]} of stage {job.stage} have not ended")
    return [newest[execution.ordinal] for execution in plan]


def _failure(outcome: Ended) -> Failure:
    if outcome.failure is not None:
        return outcome.failure
    return Failure(
        code="cancelled",
        stage=FailureStage.RUN,
        retryable=False,
        message="the execution was cancelled at the router",
    )
