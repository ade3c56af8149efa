"""RFC 9457 problem documents for errors of the HTTP layer and of the framework."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from beacon_contracts.problem import FieldProblem, Problem
from beacon_http.replies import Headers

TITLES = {status.value: status.phrase for status in HTTPStatus} | {499: "Client Closed Request"}
_FRAMEWORK_CODES = {
    400: "invalid_body",
    404: "unknown_path",
    405: "method_not_allowed",
    408: "body_too_slow",
    413: "body_too_large",
    503: "server_stopping",
}
# Where the framework's text is only the phrase of the status.
_FRAMEWORK_DETAILS = {
    404: "the API has no such path; GET /openapi.json lists its paths",
    405: "this path does not support the method; the Allow header lists those that it supports",
}
_PLACES = frozenset({"query", "path", "header", "body"})
# A body of a megabyte can have a hundred thousand invalid fields: reporting all of them took a second.
_MAX_FIELDS = 50
_MAX_PATH_LENGTH = 200


class HttpProblemError(Exception):
    """An error of the HTTP layer itself, with its problem document."""

    def __init__(self, status: int, code: str, detail: str, *, headers: Headers = (), **more: Any) -> None:
        super().__init__(detail)
        self.problem = make_problem(status, code, detail, **more)
        self.headers = headers


def make_problem(status: int, code: str, detail: str, **more: Any) -> Problem:
    """`more`: the other fields of the document, such as `errors` and `retry_after_s`."""
    return Problem(title=TITLES[status], status=status, code=code, detail=detail, **more)


def framework_problem(error: HTTPException) -> tuple[Problem, Headers]:
    """The document for an error that the framework raises, such as an unknown path."""
    code = _FRAMEWORK_CODES.get(error.status_code, "refused")
    headers = tuple(
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in (error.headers or {}).items()
    )
    retry_after = (error.headers or {}).get("retry-after")
    more = {} if retry_after is None else {"retry_after_s": float(retry_after)}
    detail = str(error.detail)
    if detail == TITLES[error.status_code]:
        detail = _FRAMEWORK_DETAILS.get(error.status_code, detail)
    return make_problem(error.status_code, code, detail, **more), headers


def field_problems(
    error: ValidationError | RequestValidationError, hidden: frozenset[str] = frozenset()
) -> list[FieldProblem]:
    """The first invalid fields. `hidden` are names of our types, which are not in the client's document."""
    if isinstance(error, ValidationError):
        found: Sequence[Any] = error.errors(include_url=False, include_context=False, include_input=False)
    else:
        found = error.errors()
    return [
        FieldProblem(field=_path(item["loc"], hidden), message=item["msg"], code=item["type"])
        for item in found[:_MAX_FIELDS]
    ]


def _path(loc: tuple[int | str, ...], hidden: frozenset[str]) -> str:
    """`questions[2].prompt`: the path in the client's document."""
    path = ""
    for place, part in enumerate(loc):
        if isinstance(part, int):
            path += f"[{part}]"
        elif part in _PLACES and place == 0 and len(loc) > 1:
            continue
        elif part not in hidden:
            path += f".{part}" if path else part
    return path[:_MAX_PATH_LENGTH] or "body"
