"""Failures that the router itself causes, not a backend."""

from typing import Any

from beacon_contracts.failures import Failure, FailureStage
from beacon_router.backends import BackendError

START_BY_PASSED = "start_by_passed"
ROUTER_STOPPING = "router_stopping"


def cancelled() -> BackendError:
    return BackendError("cancelled", FailureStage.RUN, False, "cancelled by the client", False)


def timed_out(limit_s: float, *, cold: bool) -> BackendError:
    stage, code = (FailureStage.LOAD, "load_timeout") if cold else (FailureStage.RUN, "run_timeout")
    message = f"not done {limit_s:g} s after its start"
    return BackendError(code, stage, True, message, model_state_unknown=True)


def client_too_slow(limit_s: float) -> BackendError:
    message = f"the client had not read the response {limit_s:g} s after its start"
    return BackendError("client_too_slow", FailureStage.RUN, False, message, False)


def client_stopped_reading(seconds: float) -> BackendError:
    message = f"the client read nothing of the response for {seconds:g} s"
    return BackendError("client_too_slow", FailureStage.RUN, False, message, False)


def start_by_passed() -> BackendError:
    message = "no slot was free before start_by"
    return BackendError(START_BY_PASSED, FailureStage.QUEUE, True, message, False)


def model_removed(model: str, region: str) -> BackendError:
    message = f"no backend serves {model} in {region} any more"
    return BackendError("model_removed", FailureStage.QUEUE, False, message, False)


def stopped_waiting() -> BackendError:
    message = "the router stopped before the run started"
    return BackendError(ROUTER_STOPPING, FailureStage.QUEUE, True, message, False)


def stopped_running() -> BackendError:
    message = "the router stopped before the run was done"
    return BackendError(ROUTER_STOPPING, FailureStage.RUN, True, message, False, remote_alive=True)


def capacity_lost() -> BackendError:
    message = "the router lost its share of a limit during the run"
    return BackendError("capacity_lost", FailureStage.RUN, True, message, False)


def internal_error(error: Exception) -> BackendError:
    message = f"{type(error).__name__}: {error}"[:300]
    return BackendError("internal_error", FailureStage.RUN, False, message)


def failure_of(error: BackendError) -> Failure:
    """The failure as the API shows it."""
    return Failure(
        code=error.code,
        stage=error.stage,
        retryable=error.retryable,
        message=error.message,
        details=_details(error) or None,
    )


def _details(error: BackendError) -> dict[str, Any]:
    given = {"status": error.status, "error": error.error, "retry_after_s": error.retry_after_s}
    return {name: value for name, value in given.items() if value is not None}
