"""The one place where errors become HTTP: RFC 9457 problem documents with a stable code."""

import math
from typing import Any

import orjson
import structlog
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.problem import CONTENT_TYPE, FieldProblem, Problem
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


class HttpProblemError(Exception):
    """A refusal that only the HTTP edge knows about."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: list[FieldProblem] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.problem = Problem(
            title=TITLES[status], status=status, code=code, detail=detail, errors=errors or None
        )
        self.headers = headers or {}


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


def dispatch_problem(error: DispatchError) -> Problem:
    status, code = _STATUS_AND_CODE[type(error)]
    wait_s = error.retry_after_s if isinstance(error, RefusedForNowError) else None
    return Problem(title=TITLES[status], status=status, code=code, detail=str(error), retry_after_s=wait_s)


def retry_later(status: int, code: str, detail: str, retry_after_s: float) -> Problem:
    return Problem(title=TITLES[status], status=status, code=code, detail=detail, retry_after_s=retry_after_s)


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    given = dict(headers or {})
    if problem.retry_after_s is not None:
        given["retry-after"] = str(max(1, math.ceil(problem.retry_after_s)))
    return Response(orjson.dumps(problem.document()), problem.status, given, CONTENT_TYPE)


def invalid_fields(error: ValidationError) -> HttpProblemError:
    errors = [
        FieldProblem(
            field=".".join(str(part) for part in item["loc"]) or "body",
            message=item["msg"],
            code=item["type"],
        )
        for item in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    first = errors[0]
    return HttpProblemError(422, "invalid_field", f"{first.field}: {first.message}", errors=errors)


async def on_problem(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HttpProblemError):
        raise error
    return problem_response(error.problem, error.headers)


async def on_dispatch_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, DispatchError):
        raise error
    return problem_response(dispatch_problem(error))


async def on_http_exception(_request: Request, error: Exception) -> Response:
    """What the framework refuses by itself: an unknown path, a wrong method."""
    status: int = getattr(error, "status_code", 500)
    code = {404: "unknown_path", 405: "method_not_allowed"}.get(status, "refused")
    problem = Problem(
        title=TITLES.get(status, "Refused"),
        status=status,
        code=code,
        detail=str(getattr(error, "detail", "")),
    )
    headers: dict[str, Any] | None = getattr(error, "headers", None)
    return problem_response(problem, headers)


async def on_crash(request: Request, error: Exception) -> Response:
    log.error("request_crashed", path=request.url.path, exc_info=error)
    return problem_response(
        Problem(title=TITLES[500], status=500, code="internal_error", detail="this is a defect of the router")
    )
