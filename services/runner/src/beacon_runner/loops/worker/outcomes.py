"""How one execution ended, as the executor tells it."""

from dataclasses import dataclass

from beacon_contracts.failures import Failure
from beacon_contracts.inference import InferenceState, InferenceView
from beacon_contracts.jobs import ExecutionState


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The router could not take it now: it has not run, and waiting is no failure."""

    delay_s: float
    reason: str


Outcome = InferenceView | Failure | NotTaken

STATE_OF_RESULT = {
    InferenceState.COMPLETED: ExecutionState.COMPLETED,
    InferenceState.FAILED: ExecutionState.FAILED,
    InferenceState.CANCELLED: ExecutionState.CANCELLED,
}
