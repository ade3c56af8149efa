"""What a user may do to a job: cancel, resume, retry one execution, skip. Each is accepted or refused here.

The functions take the job as it was read. The store writes the result only if the job is still the same.
"""

from dataclasses import dataclass

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.errors import (
    AlreadySkippedError,
    JobStateError,
    NotRetryableError,
    RetriesExhaustedError,
)
from beacon_runner.domain.execution.retry_policy import RetryPolicy, allowed_attempts
from beacon_runner.domain.jobs.records import ExecutionRecord, JobRecord
from beacon_runner.domain.jobs.states import (
    LIVE,
    WAITING,
    ExecutionTransition,
    JobTransition,
    allows,
    execution_allows,
)
from beacon_runner.domain.queue.classes import better


@dataclass(frozen=True, slots=True)
class JobVersion:
    """Names one state of a job's row: a write guarded by it fails if the job has changed since.

    `operator`: who changes a job of another user; it is recorded in the audit log.
    """

    id: JobId
    state: JobState
    generation: int
    fence: int
    front: bool
    operator: Actor | None = None

    @classmethod
    def of(cls, job: JobRecord, by: Actor | None = None) -> "JobVersion":
        operator = by if by is not None and by.user != job.head.user else None
        return cls(job.id, job.state, job.generation, job.fence, job.front, operator)


@dataclass(frozen=True, slots=True)
class CancelDecision:
    """`at_router`: executions may be at a router and must be cancelled there.

    `refund`: nothing of the job runs, so its payment is returned now. Otherwise the routers' answers decide.
    """

    at_router: bool
    refund: bool


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """`run` is false when the execution has completed or is in flight: there is no second run.

    `attempt`: the job is queued again as this attempt. None: it is live and takes the execution along.
    """

    state: ExecutionState
    run: bool
    retry_attempt: int
    max_attempts: int
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class SkipDecision:
    """`requeue`: it waits at a router; a new message, whose claim joins it there, moves it to the front."""

    price: int
    job_class: JobClass
    requeue: bool = False


def decide_cancel(job: JobRecord) -> CancelDecision | None:
    """None when the job is cancelled already."""
    if job.state is JobState.CANCELLED:
        return None
    if not allows(JobTransition.CANCELLED, job.state):
        raise JobStateError(job.state, f"a job that is {job.state} cannot be cancelled")
    return CancelDecision(at_router=job.fence > 0, refund=not job.claimed)


def decide_resume(job: JobRecord) -> None:
    """A failed or partial job continues from the failed stage if its failure is retryable.

    An expired job continues where it stopped, or waits for its limit again. A scheduled one starts now,
    unless it waits for a limit.
    """
    if not allows(JobTransition.RESUMED, job.state):
        raise JobStateError(job.state, f"a job that is {job.state} cannot be resumed")
    if job.waits_for_limit:
        raise JobStateError(job.state, "the job starts when a limit of its user allows it")
    if job.state in (JobState.EXPIRED, JobState.SCHEDULED):
        return
    failure = job.head.failure
    if failure is None or not failure.retryable:
        raise NotRetryableError(failure)


def decide_retry(job: JobRecord, execution: ExecutionRecord | None, policy: RetryPolicy) -> RetryDecision:
    """Retry one execution; `execution` is None when nothing of it is recorded."""
    if job.state is JobState.CANCELLED:
        raise JobStateError(job.state, "the job is cancelled; submit it again")
    state = ExecutionState.PENDING if execution is None else execution.newest.state
    used, allowed = 0 if execution is None else execution.retries, policy.retries
    in_flight_or_done = RetryDecision(state, False, used, allowed)
    if state is ExecutionState.COMPLETED:
        return in_flight_or_done
    if execution is not None and state is ExecutionState.PENDING and job.in_backoff:
        return _retry_now(job, used, allowed, job.head.attempt)
    if execution is None or not execution_allows(ExecutionTransition.RETRIED, state):
        if job.state not in LIVE:
            raise JobStateError(job.state, f"this execution never ran; resume the job, which is {job.state}")
        return in_flight_or_done
    failure = execution.newest.failure
    if failure is None or not failure.retryable:
        raise NotRetryableError(failure)
    last_attempt = allowed_attempts(job.spec, job.head.stage, policy)
    if job.claimed:
        if job.head.attempt >= last_attempt:
            raise JobStateError(job.state, "the job is being run; retry this execution when it has ended")
        return in_flight_or_done  # the job itself retries it
    # A job that has ended is queued as its last attempt: another failure must not retry the other executions.
    return _retry_now(job, used, allowed, job.head.attempt if job.state in LIVE else last_attempt)


def _retry_now(job: JobRecord, used: int, allowed: int, attempt: int) -> RetryDecision:
    if used >= allowed:
        raise RetriesExhaustedError(used, allowed)
    queue_again = allows(JobTransition.EXECUTION_RETRIED, job.state)
    return RetryDecision(ExecutionState.PENDING, True, used + 1, allowed, attempt if queue_again else None)


def decide_skip(
    job: JobRecord, price: int, front_class: JobClass, *, waits_at_router: bool = False
) -> SkipDecision:
    """Move a job that waits, here or at a router, to the front of the class that is served soonest."""
    if job.state not in WAITING:
        raise JobStateError(job.state, f"a job that is {job.state} cannot be skipped ahead")
    if job.claimed and not waits_at_router:
        raise JobStateError(job.state, "the job has left the queue and does not wait at a router")
    if job.held:
        raise JobStateError(job.state, "the job is held while its user is disabled")
    if job.state is JobState.SCHEDULED and not job.in_queue:
        raise JobStateError(job.state, "the job is scheduled and in no queue yet")
    if job.deferred:
        raise JobStateError(job.state, "the job waits for its next attempt, not in a queue")
    if job.front:
        raise AlreadySkippedError
    return SkipDecision(price, better(job.head.job_class, front_class), requeue=job.claimed)
