"""Failures that are the router's own doing, not a backend's."""

from beacon_contracts.failures import FailureStage
from beacon_router.backends import BackendError

START_BY_PASSED = "start_by_passed"
ROUTER_STOPPING = "router_stopping"


def cancelled() -> BackendError:
    return BackendError("cancelled", FailureStage.RUN, False, "cancelled by the caller", blame=False)


def client_too_slow(limit_s: float) -> BackendError:
    text = f"the client had not read the answer {limit_s:g} s after its start"
    return BackendError("client_too_slow", FailureStage.RUN, False, text, blame=False)


def client_stopped_reading(seconds: float) -> BackendError:
    text = f"the client read nothing of the answer for {seconds:g} s"
    return BackendError("client_too_slow", FailureStage.RUN, False, text, blame=False)


def start_by_passed() -> BackendError:
    return BackendError(
        START_BY_PASSED, FailureStage.QUEUE, True, "no slot was free before start_by", blame=False
    )


def stopped_waiting() -> BackendError:
    return BackendError(
        ROUTER_STOPPING, FailureStage.QUEUE, True, "the router stops and had not started it", blame=False
    )


def stopped_running() -> BackendError:
    return BackendError(
        ROUTER_STOPPING, FailureStage.RUN, True, "the router stopped before the run was done", blame=False
    )
