"""How one execution ended, as the executor reports it."""

from dataclasses import dataclass

from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.inference import InferenceState, InferenceView
from beacon_contracts.jobs import ExecutionState


@dataclass(frozen=True, slots=True)
class NotAccepted:
    """The router did not accept it now: it has not run, and no attempt is charged."""

    delay_s: float
    reason: str


def worker_error(error: Exception, *, retryable: bool = True) -> Failure:
    """An unexpected error of the worker: it costs this job an attempt and affects no other job."""
    return Failure(
        code="worker_error", stage=FailureStage.TRANSPORT, retryable=retryable, message=repr(error)[:500]
    )


Outcome = InferenceView | Failure | NotAccepted

STATE_OF_RESULT = {
    InferenceState.COMPLETED: ExecutionState.COMPLETED,
    InferenceState.FAILED: ExecutionState.FAILED,
    InferenceState.CANCELLED: ExecutionState.CANCELLED,
}
