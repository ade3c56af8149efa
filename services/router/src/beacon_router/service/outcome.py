"""What a run that ended means: pure."""

from typing import Final, NamedTuple

from beacon_contracts.failures import Failure
from beacon_router.backends import BackendError
from beacon_router.scheduling import Outcome
from beacon_router.service.failures import stopped_running
from beacon_router.service.inference import Attempt, Run

_COMPLETED: Final = Outcome.COMPLETED
"""Asking an enum for a member costs as much as a call, and this one is asked for at the end of every run."""


class RunEnd(NamedTuple):
    """What the averages may learn from is None where it is not known."""

    outcome: Outcome
    error: BackendError | None
    queued_s: float
    load_s: float
    run_s: float
    learned_load_s: float | None
    learned_run_s: float | None

    def attempt(self, run: Run) -> Attempt:
        failure = None if self.error is None else failure_of(self.error)
        start = run.start
        return Attempt(
            start.region, start.backend, self.outcome, failure, self.queued_s, self.load_s, self.run_s
        )


def judge(run: Run, now: float) -> RunEnd:
    """What a run that is over means to the scheduler, the breaker and the caller."""
    error = None if run.answer is not None else run.error or run.stopped or stopped_running()
    outcome = _outcome(run, error)
    queued_s = max(0.0, run.started_at - run.inference.waiting_since)
    spent_s = max(0.0, now - run.started_at)
    reported_load_s = None if run.answer is None else run.answer.load_s
    if reported_load_s is not None and reported_load_s > spent_s:
        reported_load_s = None  # milliseconds, say: no run would be left
    load_s = reported_load_s or 0.0
    run_s = spent_s - load_s
    split_known = reported_load_s is not None or not run.cold
    learn = outcome is _COMPLETED and split_known
    learned_load_s = load_s if learn and run.start.needs_load else None
    return RunEnd(outcome, error, queued_s, load_s, run_s, learned_load_s, run_s if learn else None)


def _outcome(run: Run, error: BackendError | None) -> Outcome:
    if error is None:
        return _COMPLETED
    ended_by_us = run.error is None and not error.blame
    return Outcome.CANCELLED if ended_by_us else Outcome.FAILED


def failure_of(error: BackendError) -> Failure:
    details = None if error.status is None else {"status": error.status}
    return Failure(
        code=error.code,
        stage=error.stage,
        retryable=error.retryable,
        message=error.message,
        details=details,
    )
