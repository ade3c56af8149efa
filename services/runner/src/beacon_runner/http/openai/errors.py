"""Errors as clients of OpenAI's API expect them."""

from collections.abc import Mapping
from typing import Any

import orjson
import structlog
from starlette.requests import ClientDisconnect

from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.problem import Problem
from beacon_http.replies import Headers, Reply, with_retry_after
from beacon_runner.application.interactive import RequestRefusedError
from beacon_runner.application.request_memory import NoRequestMemoryError
from beacon_runner.domain.errors import LimitReachedError
from beacon_runner.domain.inputs.chat import MODEL_NOT_FOUND, InvalidChatError
from beacon_runner.domain.limits.request_quota import RequestLimit
from beacon_runner.http.problems import CLIENT_CLOSED_REQUEST, problem_of
from beacon_runner.http.rate_limit_headers import request_limit_headers
from beacon_runner.ports.interactive import ResponseLost
from beacon_runner.ports.router import RouterBusy, RouterError, RouterRefused

log = structlog.get_logger(__name__)

PREFIX = "/v1"
ROUTES = ("POST /v1/chat/completions", "GET /v1/models", "GET /v1/models/{model}")
EXPECTED_ERRORS = (
    InvalidChatError,
    RequestRefusedError,
    LimitReachedError,
    NoRequestMemoryError,
    RouterError,
)
RETRY_AFTER_S = 5.0
NO_RETRY = (b"x-should-retry", b"false")
_TYPES: Mapping[int, str] = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# Codes that clients of OpenAI's API know, for those of the problem documents.
_CODES: Mapping[str, str] = {"unknown_key": "invalid_api_key", "missing_key": "missing_api_key"}
# HTTP status of a failed inference whose backend has not answered with one.
_STATUS_OF_FAILURE: Mapping[str, int] = {
    "backend_refused": 400,
    "unusable_input": 400,
    "model_removed": 404,
    "client_too_slow": 408,
    # An operator cancelled it: a status that clients do not retry.
    "cancelled": CLIENT_CLOSED_REQUEST,
    "backend_busy": 429,
    "start_by_passed": 504,
    "run_timeout": 504,
    "load_timeout": 504,
    "backend_timeout": 504,
    "bad_payload": 502,
    "backend_error": 502,
    "internal_error": 500,
}
# Requests of `/v1` have no Idempotency-Key.
_DETAILS: Mapping[str, str] = {
    "database_unavailable": "the database does not answer; retry later",
    "queue_unavailable": "Redis does not answer; retry later",
}
_UNREACHABLE = "the backend of the model could not be reached"


def error_document(
    status: int, code: Any, message: str, *, param: str | None = None, kind: str | None = None
) -> dict[str, Any]:
    kind = kind or _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_reply(error: Exception, path: str) -> Reply:
    """Any error in OpenAI's format."""
    problem, headers, param = _problem(error)
    if problem.status == 500:
        log.error("request_failed", path=path, exc_info=error)
    headers = with_retry_after(headers, problem.retry_after_s)
    document = error_document(
        problem.status, _CODES.get(problem.code, problem.code), problem.detail or problem.title, param=param
    )
    return Reply(problem.status, orjson.dumps(document), headers)


def failure_reply(failure: Failure) -> Reply:
    """A failed inference: the backend's own status and error, if it has answered with one.

    The router has retried it already, so `x-should-retry` is false.
    """
    status, document = failure_document(failure)
    headers: Headers = (NO_RETRY,)
    if status in (429, 503):
        details = failure.details or {}
        headers = with_retry_after(headers, details.get("retry_after_s") or RETRY_AFTER_S)
    return Reply(status, orjson.dumps(document), headers)


def failure_document(failure: Failure) -> tuple[int, dict[str, Any]]:
    """The backend's error object as it is, with what clients expect and it has left out."""
    details = failure.details or {}
    status = _status_of(failure, details.get("status"))
    message = _UNREACHABLE if failure.stage is FailureStage.TRANSPORT else failure.message
    document = error_document(status, failure.code, message)
    given = details.get("error")
    if given:
        del document["error"]["param"]
        document["error"] |= given
    return status, document


def _status_of(failure: Failure, backend: int | None) -> int:
    if failure.stage is FailureStage.TRANSPORT:
        return 503
    if backend is not None and 400 <= backend < 600:
        return backend
    return _STATUS_OF_FAILURE.get(failure.code, 503 if failure.retryable else 502)


def _problem(error: Exception) -> tuple[Problem, Headers, str | None]:
    match error:
        case InvalidChatError():
            status = 404 if error.code == MODEL_NOT_FOUND else 400
            return _made(status, error.code, str(error)), (), error.param
        case RequestRefusedError():
            return _limit_reached(error), request_limit_headers(error.refused), None
        case RouterRefused():
            return _made(400, error.problem.code, error.problem.detail or error.problem.title), (), None
        case NoRequestMemoryError() | RouterError():
            return _unavailable(error), (), None
        case ClientDisconnect():
            return _made(CLIENT_CLOSED_REQUEST, "client_disconnected", "the client disconnected"), (), None
    problem, headers = problem_of(error)
    problem = problem.model_copy(update={"detail": _DETAILS.get(problem.code, problem.detail)})
    if problem.code == "unknown_path":
        routes = ", ".join(ROUTES)
        problem = _made(404, "unknown_path", f"the OpenAI-compatible API of Beacon has {routes}")
    return problem, headers, None


def _limit_reached(error: RequestRefusedError) -> Problem:
    refused = error.refused
    if refused.reached is RequestLimit.REQUESTS_PER_MINUTE:
        rule = f"may start {refused.requests_per_minute.limit} requests a minute"
    else:
        rule = f"may have {refused.concurrent_requests.limit} requests at the same time"
    message = f"a user of tier {error.tier} {rule}; retry later"
    return _made(429, "rate_limit_exceeded", message, refused.retry_after_s)


def _unavailable(error: NoRequestMemoryError | RouterError) -> Problem:
    """The reason is for operators: it names routers and backends."""
    if isinstance(error, NoRequestMemoryError):
        log.warning("request_memory_full", reason=str(error))
        message = "too many bytes of requests wait in this process, or too many of yours; retry later"
        return _made(503, "memory_full", message, RETRY_AFTER_S)
    log.warning("routers_unavailable", reason=str(error))
    if isinstance(error, ResponseLost):
        return _made(502, "connection_lost", "the rest of the response was lost")
    retry_after_s = error.retry_after_s if isinstance(error, RouterBusy) else RETRY_AFTER_S
    message = "no GPU can take this request now; retry later"
    return _made(503, "busy", message, max(1.0, retry_after_s))


def _made(status: int, code: str, detail: str, retry_after_s: float | None = None) -> Problem:
    return Problem(title=code, status=status, code=code, detail=detail, retry_after_s=retry_after_s)
