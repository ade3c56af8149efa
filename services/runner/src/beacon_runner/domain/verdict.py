"""What becomes of a job when a stage's executions have ended: next stage, done, retry or dead."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.plan import ended, step_name
from beacon_runner.domain.stage_result import (
    ClaimedJob,
    Dead,
    Deferred,
    ExecutionReport,
    Finished,
    KnownExecution,
    NextStage,
    PlannedExecution,
    RetryLater,
)

PERMANENT = "permanent_failure"
ATTEMPTS_USED_UP = "attempts_used_up"
# By name: asking an enumeration for its member takes longer.
_COMPLETED, _JOB_COMPLETED = ExecutionState.COMPLETED, JobState.COMPLETED
_COMPLETED_PLAINLY = Finished(_JOB_COMPLETED, {})  # how all but pipelines end: one value for all of them


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A job is tried `retries` more times; the n-th retry waits for the n-th delay, the last one repeats.

    One that the router could not take waits for as long as was asked for, and from the second time on at
    least for `first_wait_s`, twice as long each time up to `longest_wait_s`: as long again as it has waited.
    """

    retries: int = 3
    delays_s: tuple[float, ...] = (60.0, 120.0, 180.0)
    jitter: float = 0.1
    first_wait_s: float = 0.5
    longest_wait_s: float = 60.0
    wait_jitter: float = 0.25

    def delay_s(self, attempt: int, chance: float) -> float:
        """The wait after `attempt`; `chance` in [0, 1) spreads jobs that failed together."""
        delay = self.delays_s[min(attempt, len(self.delays_s)) - 1]
        return delay * (1.0 + self.jitter * chance)

    def wait_s(self, times: int, asked_s: float, chance: float) -> float:
        """The wait after the router could not take it so many times in a row."""
        grown = self.first_wait_s * 2.0 ** min(times - 2, 16) if times > 1 else 0.0
        return max(asked_s, min(grown, self.longest_wait_s)) * (1.0 + self.wait_jitter * chance)


class UnfinishedStageError(Exception):
    """A verdict was asked for while executions of the stage had not ended."""


Ended = KnownExecution | ExecutionReport
StageVerdict = NextStage | Finished | RetryLater | Dead


def decide(
    job: ClaimedJob,
    plan: Sequence[PlannedExecution],
    reports: Sequence[ExecutionReport],
    policy: RetryPolicy,
    chance: float,
) -> StageVerdict:
    """The verdict on a stage in which everything has ended, in this delivery or in an earlier one."""
    if len(plan) == len(reports) == 1 and reports[0].state is _COMPLETED:
        return _complete(job, reports)
    outcomes = _outcomes(job, plan, reports)
    failures = [_failure(one) for one in outcomes if one.state is not ExecutionState.COMPLETED]
    if not failures:
        return _complete(job, outcomes)
    retryable = [failure for failure in failures if failure.retryable]
    if retryable and job.attempt < allowed_attempts(job.spec, job.stage, policy):
        return RetryLater(policy.delay_s(job.attempt, chance), retryable[0])
    state = dead_state(job, some_completed=len(failures) < len(plan))
    # A retryable failure is shown when there is one: it tells the user that a resume makes sense.
    if retryable:
        return Dead(state, ATTEMPTS_USED_UP, retryable[0], job.context)
    return Dead(state, PERMANENT, failures[0], job.context)


def dead_state(job: ClaimedJob, *, some_completed: bool) -> JobState:
    """Partial when anything was completed: in this stage, or in those before it, which are all complete."""
    return JobState.PARTIAL if some_completed or job.stage > 0 else JobState.FAILED


def postpone(
    job: ClaimedJob, asked_s: float, reason: str, policy: RetryPolicy, chance: float, *, progressed: bool
) -> Deferred:
    """The verdict on a job that the router could not take all of; after some progress it counts anew."""
    before = job.postponed.times if job.postponed is not None and not progressed else 0
    return Deferred(policy.wait_s(before + 1, asked_s, chance), reason, before + 1)


def allowed_attempts(spec: Mapping[str, Any], stage: int, policy: RetryPolicy) -> int:
    """How often a stage may be tried: a pipeline's step says it itself."""
    if "steps" in spec:
        return int(spec["steps"][stage]["attempts"])
    return policy.retries + 1


def _outcomes(
    job: ClaimedJob, plan: Sequence[PlannedExecution], reports: Sequence[ExecutionReport]
) -> list[Ended]:
    newest: dict[int, Ended] = {known.ordinal: known for known in job.known}
    newest |= {report.execution.ordinal: report for report in reports}
    open_ordinals = [
        execution.ordinal
        for execution in plan
        if execution.ordinal not in newest or not ended(newest[execution.ordinal].state)
    ]
    if open_ordinals:
        raise UnfinishedStageError(f"executions {open_ordinals[:10]} of stage {job.stage} have not ended")
    return [newest[execution.ordinal] for execution in plan]


def _complete(job: ClaimedJob, outcomes: Sequence[Ended]) -> NextStage | Finished:
    step = step_name(job.spec, job.stage)
    context = job.context if step is None else {**job.context, step: outcomes[0].output}
    if job.stage + 1 < job.stages:
        return NextStage(context)
    return Finished(_JOB_COMPLETED, context) if context else _COMPLETED_PLAINLY


def _failure(outcome: Ended) -> Failure:
    if outcome.failure is not None:
        return outcome.failure
    return Failure(
        code="cancelled",
        stage=FailureStage.RUN,
        retryable=False,
        message="the execution was cancelled at the router",
    )
