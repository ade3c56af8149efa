"""Checks inputs against the JSON Schema of their model, before a job is stored."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator

from beacon_contracts.problem import FieldProblem

MAX_VALUES = 10_000
MAX_PROBLEMS = 20
MAX_MESSAGE = 200
SCHEMA = "schema"


class InputSchema:
    """The schema itself was checked when the configuration was loaded."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._validator = Draft202012Validator(schema)

    def problems(self, given: Mapping[str, Any], field: str) -> list[FieldProblem]:
        """At most `MAX_PROBLEMS`. The input must not be nested deeper than `json_limits` allows."""
        if _count(given, MAX_VALUES) > MAX_VALUES:
            message = f"has more than {MAX_VALUES} values, the limit for a model with a schema"
            return [FieldProblem(field=field, message=message, code="too_many")]
        try:
            errors = list(islice(self._validator.iter_errors(given), MAX_PROBLEMS))
        except RecursionError:  # the schema refers to itself without consuming the input
            message = "cannot be checked: the schema of the model refers to itself without end"
            return [FieldProblem(field=field, message=message, code=SCHEMA)]
        return [
            FieldProblem(field=_place(field, error.absolute_path), message=_text(error.message), code=SCHEMA)
            for error in errors
        ]

    def prompt_problems(self, prompts: Sequence[str], model: str) -> list[FieldProblem]:
        """Of the questions of a matrix, which the model gets as `{"prompt": …}`."""
        for number, prompt in enumerate(prompts):
            found = self.problems({"prompt": prompt}, "")
            if found:
                message = f"{model} refuses it: {found[0].field.lstrip('.') or 'input'} {found[0].message}"
                return [FieldProblem(field=f"questions[{number}]", message=message, code=SCHEMA)]
        return []


def _place(field: str, path: Iterable[str | int]) -> str:
    return field + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _text(message: str) -> str:
    """Messages begin with the value, which may be long."""
    return message if len(message) <= MAX_MESSAGE else f"…{message[-MAX_MESSAGE:]}"


def _count(value: Any, limit: int) -> int:
    """The number of values; counting ends above the limit."""
    if isinstance(value, Mapping):
        inner: Iterable[Any] = value.values()
    elif isinstance(value, list):
        inner = value
    else:
        return 1
    total = 1
    for one in inner:
        total += _count(one, limit - total)
        if total > limit:
            break
    return total
