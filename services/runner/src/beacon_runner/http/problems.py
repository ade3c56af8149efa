"""The one place where errors become HTTP: RFC 9457 problem documents with a stable code."""

from typing import Any

import structlog
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from beacon_contracts.ids import InvalidIdError
from beacon_contracts.problem import FieldProblem, Problem
from beacon_http.problems import HttpProblemError, field_problems, framework_problem, make_problem
from beacon_http.replies import Headers, Reply, problem_reply
from beacon_redis import REDIS_ERRORS
from beacon_runner.domain.admission import RefusedJobError
from beacon_runner.domain.errors import StoreOutdatedError, StoreUnavailableError
from beacon_runner.postgres import credit, job_commands, users

log = structlog.get_logger(__name__)

_OWN_CODES = frozenset({"duration_too_long"})  # told by the problem's own code when nothing else is wrong
_OUTDATED = "the database has to be migrated to the version that this release needs: `beacon-runner migrate`"
_UNION_TAGS = frozenset({"matrix", "pipeline", "generation", "ModelChoice", "constrained-str", "str"})

CLIENT_CLOSED_REQUEST = 499  # nginx's status; only the metrics show it

_SIMPLE: dict[type[Exception], tuple[int, str, str]] = {
    ClientDisconnect: (CLIENT_CLOSED_REQUEST, "client_gone", "the client disconnected before the response"),
    job_commands.NoSuchJobError: (404, "unknown_job", "there is no such job among yours"),
    job_commands.NoSuchExecutionError: (404, "unknown_execution", "the job has no such execution"),
    credit.AlreadyFirstError: (409, "already_first", "this job has paid to go first already"),
    users.NoSuchUserError: (404, "unknown_user", "there is no such user"),
    users.NoSuchKeyError: (404, "unknown_key", "this user has no such key"),
    users.NameTakenError: (409, "name_taken", "another user has that name"),
    users.NotEnoughCreditError: (
        409,
        "not_enough_credit",
        "the credit would fall below zero or grow too large",
    ),
}


EXPECTED: tuple[type[Exception], ...] = (
    *_SIMPLE,
    HTTPException,
    RequestValidationError,
    ValidationError,
    RefusedJobError,
    InvalidIdError,
    job_commands.WrongStateError,
    job_commands.NotRetryableError,
    job_commands.RetriesUsedUpError,
    credit.NotEnoughToSkipError,
    StoreUnavailableError,
    *REDIS_ERRORS,
)


def problem_of(error: Exception) -> tuple[Problem, Headers]:
    """The problem document of any error, and what belongs into the headers."""
    if isinstance(error, HttpProblemError):
        return error.problem, error.headers
    if isinstance(error, HTTPException):
        return framework_problem(error)
    found = _SIMPLE.get(type(error))
    if found is not None:
        status, code, detail = found
        return make_problem(status, code, detail), ()
    return _problem_with_details(error), ()


def _problem_with_details(error: Exception) -> Problem:
    match error:
        case RefusedJobError():
            return refused_fields(list(error.problems))
        case ValidationError() | RequestValidationError():
            return _invalid(error)
        case InvalidIdError():
            return make_problem(404, "unknown_id", str(error))
        case credit.NotEnoughToSkipError():
            more = {"price": error.price, "credit": error.credit}
            return make_problem(402, "not_enough_credit", str(error), **more)
        case (
            job_commands.WrongStateError()
            | job_commands.NotRetryableError()
            | job_commands.RetriesUsedUpError()
        ):
            return _not_as_it_stands(error)
        case _:
            return _unavailable(error)


def _not_as_it_stands(
    error: job_commands.WrongStateError | job_commands.NotRetryableError | job_commands.RetriesUsedUpError,
) -> Problem:
    match error:
        case job_commands.WrongStateError():
            return make_problem(409, "wrong_state", str(error), state=error.state)
        case job_commands.NotRetryableError():
            return make_problem(400, "not_retryable", str(error))
        case job_commands.RetriesUsedUpError():
            counts = {"retry_attempt": error.retry_attempt, "max_attempts": error.max_attempts}
            return make_problem(429, "retries_used_up", str(error), **counts)


def _unavailable(error: Exception) -> Problem:
    if isinstance(error, StoreOutdatedError):
        return make_problem(503, "database_outdated", _OUTDATED, retry_after_s=5.0)
    if isinstance(error, StoreUnavailableError):
        detail = "the database does not answer; repeat the request with the same Idempotency-Key"
        return make_problem(503, "database_unavailable", detail, retry_after_s=1.0)
    if isinstance(error, REDIS_ERRORS):
        return make_problem(503, "queue_unavailable", "the queue does not answer now", retry_after_s=1.0)
    return make_problem(500, "internal_error", "this is a defect of the runner")


def refusal(error: Exception, path: str) -> Reply:
    problem, headers = problem_of(error)
    if problem.status == 500:
        log.error("request_crashed", path=path, exc_info=error)
    elif isinstance(error, StoreOutdatedError):
        log.warning("database_outdated", path=path, error=str(error))
    return problem_reply(problem, headers)


async def on_error(request: Request, error: Exception) -> Response:
    """The framework's exception handler, for every kind of error."""
    return refusal(error, request.url.path).response()


def refused_fields(fields: list[FieldProblem]) -> Problem:
    first = fields[0]
    more = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
    codes = {field.code for field in fields}
    code = first.code if len(codes) == 1 and codes <= _OWN_CODES else "invalid_field"
    return make_problem(422, code, f"{first.field}: {first.message}{more}", errors=fields)


def _invalid(error: ValidationError | RequestValidationError) -> Problem:
    for item in error.errors():
        if item["type"] == "json_invalid":
            return make_problem(400, "invalid_json", f"the body is not JSON: {_reason(item)}")
    return refused_fields(field_problems(error, _UNION_TAGS))


def _reason(item: Any) -> str:
    return str(item.get("ctx", {}).get("error", item["msg"]))
