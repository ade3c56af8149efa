"""Maps every expected error to an RFC 9457 problem document with a stable code."""

from typing import Any

import structlog
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from beacon_contracts.ids import InvalidIdError, encode_job_id
from beacon_contracts.problem import FieldProblem, Problem
from beacon_http.problems import HttpProblemError, field_problems, framework_problem, make_problem
from beacon_http.replies import Headers, Reply, problem_reply
from beacon_runner.domain import configuration, errors
from beacon_runner.domain.limits.tier_rules import DURATION_TOO_LONG, MODEL_NOT_ALLOWED, TOO_MANY_EXECUTIONS
from beacon_runner.http.byte_ranges import RangeNotSatisfiableError
from beacon_runner.http.limit_errors import batch_exceeds_limit, limit_reached, limit_reached_headers

log = structlog.get_logger(__name__)

CLIENT_CLOSED_REQUEST = 499  # nginx's status; only the metrics show it

_OWN_CODES = frozenset(
    {DURATION_TOO_LONG, MODEL_NOT_ALLOWED, TOO_MANY_EXECUTIONS}
)  # the code of the problem, if no other field is wrong
_UNION_TAGS = frozenset({"matrix", "pipeline", "generation", "ModelChoice", "constrained-str", "str"})
_OUTDATED = "the database has to be migrated to the version that this release needs: `beacon-runner migrate`"
_QUEUE_UNAVAILABLE = "Redis does not answer; repeat the request with the same Idempotency-Key"
_FILES_UNAVAILABLE = "the file store does not answer or is full; repeat the request"
_UNAVAILABLE = "the database does not answer; repeat the request with the same Idempotency-Key"

# Status, code and detail; without a detail it is the error's text.
_SIMPLE: dict[type[Exception], tuple[int, str, str | None]] = {
    ClientDisconnect: (
        CLIENT_CLOSED_REQUEST,
        "client_disconnected",
        "the client disconnected before the response",
    ),
    InvalidIdError: (404, "unknown_id", None),
    errors.JobNotFoundError: (404, "unknown_job", "you have no job with this id"),
    errors.OperationNotFoundError: (404, "unknown_operation", "you have no operation with this id"),
    errors.OwnUserError: (
        409,
        "own_user",
        "this is the user of your key; another administrator can delete it",
    ),
    errors.ExecutionNotFoundError: (404, "unknown_execution", "the job has no execution with this id"),
    errors.JobChangedError: (409, "job_changed", "the job changes too quickly; repeat the request"),
    errors.JobStateError: (409, "wrong_state", None),
    errors.RetriesExhaustedError: (429, "retries_exhausted", None),
    errors.InsufficientCreditError: (402, "insufficient_credit", None),
    errors.NotRetryableError: (400, "not_retryable", None),
    errors.AlreadySkippedError: (409, "already_skipped", "a skip was already paid for this job"),
    errors.CreditOutOfRangeError: (409, "credit_out_of_range", "the credit would be negative or too large"),
    errors.UserNotFoundError: (404, "unknown_user", "there is no user with this id"),
    errors.UserNameTakenError: (409, "name_taken", "another user has this name"),
    errors.UnknownFileError: (
        404,
        "unknown_file",
        "you have no file with this id, or its address expired",
    ),
    errors.FileInUseError: (409, "file_in_use", None),
    errors.StorageLimitError: (413, "storage_limit", None),
    errors.UploadTooLargeError: (413, "file_too_large", None),
    errors.UnknownWebhookError: (404, "unknown_webhook", "you have no webhook with this id"),
    errors.UnknownDeliveryError: (404, "unknown_delivery", "the webhook has no delivery with this id"),
    errors.WebhookLockedError: (
        409,
        "webhook_locked",
        "an administrator has disabled this webhook; only an administrator can enable it",
    ),
    errors.TooManyWebhooksError: (409, "too_many_webhooks", None),
    RangeNotSatisfiableError: (416, "range_not_satisfiable", None),
    configuration.ConfigConflictError: (412, "config_changed", None),
    configuration.StrandedWorkError: (409, "work_stranded", None),
    configuration.UnknownRevisionError: (404, "unknown_revision", None),
    configuration.UnknownBackendError: (
        404,
        "unknown_backend",
        "the configuration has no backend of this name",
    ),
    configuration.UnknownModelError: (404, "unknown_model", "the configuration has no model of this name"),
    configuration.BackendExistsError: (409, "name_taken", "another backend has this name"),
    errors.ApiKeyNotFoundError: (404, "unknown_key", "the user has no key with this id"),
}
# Attributes of the error that are members of its problem document.
_MEMBERS: dict[type[Exception], tuple[str, ...]] = {
    configuration.ConfigConflictError: ("revision",),
    configuration.StrandedWorkError: ("stranded",),
    errors.JobStateError: ("state",),
    errors.RetriesExhaustedError: ("retry_attempt", "max_attempts"),
    errors.InsufficientCreditError: ("price", "credit"),
    errors.StorageLimitError: ("limit", "used"),
}

EXPECTED_ERRORS: tuple[type[Exception], ...] = (
    *_SIMPLE,
    HttpProblemError,
    HTTPException,
    RequestValidationError,
    ValidationError,
    errors.InvalidFieldsError,
    errors.IdempotencyKeyReusedError,
    errors.LimitReachedError,
    errors.BatchExceedsLimitError,
    errors.StoreUnavailableError,
    errors.QueueUnavailableError,
    errors.FileStoreUnavailableError,
)


def problem_of(error: Exception) -> tuple[Problem, Headers]:
    """The problem document of any error, and headers of the response."""
    if isinstance(error, HttpProblemError):
        return error.problem, error.headers
    if isinstance(error, HTTPException):
        return framework_problem(error)
    simple = _SIMPLE.get(type(error))
    if simple is not None:
        status, code, detail = simple
        members = {name: getattr(error, name) for name in _MEMBERS.get(type(error), ())}
        return make_problem(status, code, detail or str(error), **members), ()
    headers = limit_reached_headers(error) if isinstance(error, errors.LimitReachedError) else ()
    return _refused(error) or _failed(error), headers


def _refused(error: Exception) -> Problem | None:
    match error:
        case errors.InvalidFieldsError():
            return _invalid_fields(list(error.problems))
        case ValidationError() | RequestValidationError():
            return _invalid_body(error)
        case errors.IdempotencyKeyReusedError():
            earlier = encode_job_id(error.job)
            detail = f"this Idempotency-Key belongs to {earlier}, which has a different request body"
            return make_problem(409, "idempotency_key_reused", detail, job_id=earlier)
        case errors.LimitReachedError():
            return limit_reached(error)
        case errors.BatchExceedsLimitError():
            return batch_exceeds_limit(error)
    return None


def _failed(error: Exception) -> Problem:
    match error:
        case errors.StoreOutdatedError():
            return make_problem(503, "database_outdated", _OUTDATED, retry_after_s=5.0)
        case errors.StoreUnavailableError():
            return make_problem(503, "database_unavailable", _UNAVAILABLE, retry_after_s=1.0)
        case errors.FileStoreUnavailableError():
            return make_problem(503, "file_store_unavailable", _FILES_UNAVAILABLE, retry_after_s=5.0)
        case errors.QueueUnavailableError():
            return make_problem(503, "queue_unavailable", _QUEUE_UNAVAILABLE, retry_after_s=1.0)
    return make_problem(
        500,
        "internal_error",
        "unexpected error in the runner; report it with the X-Request-Id of this response",
    )


def problem_response(error: Exception, path: str) -> Reply:
    problem, headers = problem_of(error)
    if problem.status == 500:
        log.error("request_failed", path=path, exc_info=error)
    elif isinstance(error, errors.StoreOutdatedError):
        log.warning("database_outdated", path=path, error=str(error))
    return problem_reply(problem, headers)


def _invalid_fields(fields: list[FieldProblem]) -> Problem:
    first = fields[0]
    more = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
    codes = {field.code for field in fields}
    code = first.code if len(codes) == 1 and codes <= _OWN_CODES else "invalid_field"
    return make_problem(422, code, f"{first.field}: {first.message}{more}", errors=fields)


def _invalid_body(error: ValidationError | RequestValidationError) -> Problem:
    for item in error.errors():
        if item["type"] == "json_invalid":
            return make_problem(400, "invalid_json", f"the body is not JSON: {_reason(item)}")
    return _invalid_fields(field_problems(error, _UNION_TAGS))


def _reason(item: Any) -> str:
    return str(item.get("ctx", {}).get("error", item["msg"]))
