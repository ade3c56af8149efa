"""The one place where errors become HTTP: RFC 9457 problem documents with a stable code."""

import structlog
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.problem import FieldProblem, Problem
from beacon_router.api.replies import Headers, Reply, problem_reply
from beacon_router.dispatch.errors import (
    BackendsDownError,
    DispatchError,
    MemoryFullError,
    NoBackendError,
    QueueFullError,
    RefusedForNowError,
    RequestIdReusedError,
    StaleFenceError,
    StartByPassedError,
    StoppingError,
    UnknownInferenceError,
)

log = structlog.get_logger(__name__)

TITLES = {
    400: "Not understood",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    422: "Bad input",
    429: "Too much at once",
    500: "Internal error",
    502: "The backend failed",
    503: "Not available now",
    504: "Too late",
}

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
_FRAMEWORK_CODES = {404: "unknown_path", 405: "method_not_allowed"}


class HttpProblemError(Exception):
    """A refusal that only the HTTP edge knows about."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: list[FieldProblem] | None = None,
        retry_after_s: float | None = None,
        headers: Headers = (),
    ) -> None:
        super().__init__(detail)
        self.problem = make_problem(status, code, detail, errors=errors, retry_after_s=retry_after_s)
        self.headers = headers


FORESEEN = (HttpProblemError, DispatchError, ValidationError, RequestValidationError, HTTPException)


def make_problem(
    status: int,
    code: str,
    detail: str,
    *,
    errors: list[FieldProblem] | None = None,
    retry_after_s: float | None = None,
) -> Problem:
    return Problem(
        title=TITLES.get(status, "Refused"),
        status=status,
        code=code,
        detail=detail,
        errors=errors,
        retry_after_s=retry_after_s,
    )


def problem_of(error: Exception) -> tuple[Problem, Headers]:
    """The problem document of any error, and what belongs into the headers."""
    match error:
        case HttpProblemError():
            return error.problem, error.headers
        case DispatchError():
            return _dispatch_problem(error), ()
        case ValidationError() | RequestValidationError():
            return _invalid_fields(error), ()
        case HTTPException():
            code = _FRAMEWORK_CODES.get(error.status_code, "refused")
            headers = tuple(
                (name.encode("latin-1"), value.encode("latin-1"))
                for name, value in (error.headers or {}).items()
            )
            return make_problem(error.status_code, code, str(error.detail)), headers
        case _:
            return make_problem(500, "internal_error", "this is a defect of the router"), ()


def refusal(error: Exception, path: str) -> Reply:
    log_if_crashed(error, path)
    return problem_reply(*problem_of(error))


def log_if_crashed(error: Exception, path: str) -> None:
    """An error that nobody foresaw is a defect, and must be found."""
    if not isinstance(error, FORESEEN):
        log.error("request_crashed", path=path, exc_info=error)


async def on_error(request: Request, error: Exception) -> Response:
    """The framework's exception handler, for every kind of error."""
    return refusal(error, request.url.path).response()


def _dispatch_problem(error: DispatchError) -> Problem:
    status, code = _STATUS_AND_CODE[type(error)]
    wait_s = error.retry_after_s if isinstance(error, RefusedForNowError) else None
    return make_problem(status, code, str(error), retry_after_s=wait_s)


def _invalid_fields(error: ValidationError | RequestValidationError) -> Problem:
    fields = [
        FieldProblem(
            field=".".join(str(part) for part in item["loc"]) or "body",
            message=item["msg"],
            code=item["type"],
        )
        for item in error.errors()
    ]
    first = fields[0]
    return make_problem(422, "invalid_field", f"{first.field}: {first.message}", errors=fields)
