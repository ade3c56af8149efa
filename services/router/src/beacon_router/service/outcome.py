"""Classifies a finished run for the scheduler, the breaker and the client. Pure."""

from typing import NamedTuple

from beacon_router.backends import BackendError, BackendResult
from beacon_router.scheduling import Outcome
from beacon_router.service.failures import failure_of
from beacon_router.service.inference import Run, RunRecord


class RunOutcome(NamedTuple):
    """`measured_*` feed the scheduler's averages; None where the share of loading is unknown."""

    outcome: Outcome
    error: BackendError | None
    attempt: RunRecord
    measured_load_s: float | None
    measured_run_s: float | None


def classify(run: Run, result: BackendResult | BackendError, now: float, *, stopped: bool) -> RunOutcome:
    """`stopped`: the router ended the run itself."""
    error = result if isinstance(result, BackendError) else None
    if error is None:
        outcome = Outcome.COMPLETED
    else:
        outcome = Outcome.CANCELLED if stopped and not error.counts_as_failure else Outcome.FAILED
    spent_s = max(0.0, now - run.started_at)
    reported_load_s = None if isinstance(result, BackendError) else result.load_s
    if reported_load_s is not None and reported_load_s > spent_s:
        reported_load_s = None  # not plausible, for example in milliseconds
    load_s = reported_load_s or 0.0
    attempt = RunRecord(
        region=run.start.region,
        backend=run.start.backend,
        outcome=outcome,
        failure=None if error is None else failure_of(error),
        queued_s=max(0.0, run.started_at - run.inference.waiting_since),
        load_s=load_s,
        run_s=spent_s - load_s,
    )
    measured = outcome is Outcome.COMPLETED and (reported_load_s is not None or not run.cold)
    return RunOutcome(
        outcome,
        error,
        attempt,
        measured_load_s=load_s if measured and run.start.needs_load else None,
        measured_run_s=attempt.run_s if measured else None,
    )
