"""Limits of JSON that Beacon stores or forwards without interpreting it."""

import math
from collections.abc import Iterator
from typing import Any

import orjson

from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.problem import FieldProblem

MAX_DEPTH = 64
MAX_RESULT_BYTES = 64 * 2**20  # bytes; a row of Postgres holds more, a batch of such rows would not
NOT_RECORDABLE = "result_not_recordable"
_INT64_LIMIT = 2**63


def json_problems(value: Any, field: str, depth: int = 1) -> Iterator[FieldProblem]:
    """Nested too deep, NUL characters, numbers that are no JSON numbers or that do not fit 64 bits."""
    if isinstance(value, str):
        if "\0" in value:
            yield FieldProblem(field=field, message="has a NUL character", code="nul")
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int):
        if not -_INT64_LIMIT <= value < _INT64_LIMIT:
            yield FieldProblem(field=field, message="does not fit into 64 bits", code="too_large")
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield FieldProblem(field=field, message="is not a finite number", code="not_finite")
    elif depth > MAX_DEPTH:
        yield FieldProblem(field=field, message=f"is nested deeper than {MAX_DEPTH} levels", code="too_deep")
    else:
        yield from _inner_problems(value, field, depth + 1)


def _inner_problems(value: Any, field: str, depth: int) -> Iterator[FieldProblem]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if "\0" in key:
                yield FieldProblem(field=field, message="has a NUL character in a name", code="nul")
            else:
                yield from json_problems(inner, f"{field}.{key}", depth)
    else:
        for number, inner in enumerate(value):
            yield from json_problems(inner, f"{field}[{number}]", depth)


def stored_form(output: Any) -> str | Failure:
    """A result as it is stored, or why it cannot be. `NaN` becomes `null`, as in any browser.

    As text: orjson allocates bytes in blocks of a kilobyte, and keeping many of them fragments memory.
    """
    try:
        encoded = orjson.dumps(output)
    except (TypeError, ValueError, RecursionError) as error:
        return unstorable(f"the result cannot be stored as JSON: {error}")
    if len(encoded) > MAX_RESULT_BYTES:
        return unstorable(f"the result has {len(encoded)} bytes, more than {MAX_RESULT_BYTES}")
    return encoded.decode()


def unstorable(message: str) -> Failure:
    return Failure(code=NOT_RECORDABLE, stage=FailureStage.RECORD, retryable=False, message=message)
