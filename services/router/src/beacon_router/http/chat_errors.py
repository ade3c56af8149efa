"""Errors as clients of OpenAI's API expect them."""

import orjson

from beacon_contracts.failures import Failure
from beacon_http.problems import HttpProblemError
from beacon_http.replies import Reply, with_retry_after
from beacon_router.http.problems import CLIENT_CLOSED_REQUEST, log_unexpected, problem_of

CHAT_PREFIX = "/v1"
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}
# HTTP status of a failed inference.
_STATUS_OF_FAILURE = {
    "backend_refused": 400,
    "unusable_input": 400,
    "client_too_slow": 408,
    # The client has disconnected, or an operator cancelled it: a status that clients do not retry.
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


class ChatError(HttpProblemError):
    """An error of the OpenAI-compatible API; `param` names the field."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(status, code, message)
        self.param = param


def error_document(status: int, code: str, message: str, param: str | None = None) -> bytes:
    kind = _TYPES.get(status, "server_error")
    return orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})


def chat_refusal(error: Exception, path: str) -> Reply:
    """Any error in the format of OpenAI's API."""
    log_unexpected(error, path)
    problem, headers = problem_of(error)
    headers = with_retry_after(headers, problem.retry_after_s)
    param = error.param if isinstance(error, ChatError) else None
    return Reply(problem.status, error_document(problem.status, problem.code, problem.detail, param), headers)


def failure_status(failure: Failure) -> int:
    return _STATUS_OF_FAILURE.get(failure.code, 503 if failure.retryable else 502)


def chat_failure(failure: Failure) -> Reply:
    """A failed inference."""
    status = failure_status(failure)
    return Reply(status, error_document(status, failure.code, failure.message))
