"""Maps errors to RFC 9457 problem documents with a stable code."""

import structlog
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from beacon_contracts.problem import Problem
from beacon_http.problems import HttpProblemError, field_problems, framework_problem, make_problem
from beacon_http.replies import Headers, Reply, problem_reply
from beacon_router.service.errors import (
    BackendsDownError,
    DispatchError,
    MemoryFullError,
    NoBackendError,
    QueueFullError,
    RequestIdReusedError,
    StaleFenceError,
    StartByPassedError,
    StoppingError,
    TemporaryRefusalError,
    UnknownInferenceError,
)

log = structlog.get_logger(__name__)

_STATUS_AND_CODE: dict[type[DispatchError], tuple[int, str]] = {
    QueueFullError: (429, "queue_full"),
    MemoryFullError: (429, "memory_full"),
    NoBackendError: (503, "no_backend"),
    BackendsDownError: (503, "backends_down"),
    StoppingError: (503, "router_stopping"),
    UnknownInferenceError: (404, "unknown_inference"),
    StaleFenceError: (409, "stale_fence"),
    RequestIdReusedError: (409, "request_id_reused"),
    StartByPassedError: (504, "start_by_passed"),
}
EXPECTED_ERRORS = (
    HttpProblemError,
    DispatchError,
    ValidationError,
    RequestValidationError,
    HTTPException,
    ClientDisconnect,
)
# The client disconnected before the response. Visible only in metrics.
CLIENT_CLOSED_REQUEST = 499


def problem_of(error: Exception) -> tuple[Problem, Headers]:
    """The problem document of any error, and its response headers."""
    match error:
        case HttpProblemError():
            return error.problem, error.headers
        case DispatchError():
            return _dispatch_problem(error), ()
        case ValidationError() | RequestValidationError():
            return _invalid_fields(error), ()
        case HTTPException():
            return framework_problem(error)
        case ClientDisconnect():
            return make_problem(
                CLIENT_CLOSED_REQUEST, "client_disconnected", "the client disconnected before the response"
            ), ()
        case _:
            return make_problem(
                500,
                "internal_error",
                "unexpected error in the router; report it with the X-Request-Id of this response",
            ), ()


def refusal(error: Exception, path: str) -> Reply:
    log_unexpected(error, path)
    return problem_reply(*problem_of(error))


def log_unexpected(error: Exception, path: str) -> None:
    """An unexpected error is a defect and is logged with its traceback."""
    if not isinstance(error, EXPECTED_ERRORS):
        log.error("request_failed", path=path, exc_info=error)


def _dispatch_problem(error: DispatchError) -> Problem:
    status, code = _STATUS_AND_CODE[type(error)]
    wait_s = error.retry_after_s if isinstance(error, TemporaryRefusalError) else None
    return make_problem(status, code, str(error), retry_after_s=wait_s)


def _invalid_fields(error: ValidationError | RequestValidationError) -> Problem:
    fields = field_problems(error)
    first = fields[0]
    return make_problem(422, "invalid_field", f"{first.field}: {first.message}", errors=fields)
