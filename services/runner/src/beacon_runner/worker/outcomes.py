"""How one execution ended, as the executor tells it."""

from dataclasses import dataclass

from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.inference import InferenceState, InferenceView
from beacon_contracts.jobs import ExecutionState


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The router could not take it now: it has not run, and waiting is no failure."""

    delay_s: float
    reason: str


def worker_error(error: Exception, *, retryable: bool = True) -> Failure:
    """A defect of this program met this job: it costs the job an attempt, and nobody else anything."""
    return Failure(
        code="worker_error", stage=FailureStage.TRANSPORT, retryable=retryable, message=repr(error)[:500]
    )


Outcome = InferenceView | Failure | NotTaken

STATE_OF_RESULT = {
    InferenceState.COMPLETED: ExecutionState.COMPLETED,
    InferenceState.FAILED: ExecutionState.FAILED,
    InferenceState.CANCELLED: ExecutionState.CANCELLED,
}
