"""Formats validation errors: the key, the given value and the expected one."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

# Addresses are not shown, because they may contain a password.
_INVALID_URL = "is not an address of the form http://host:port/path"
_MESSAGES = {
    "extra_forbidden": "is not a known key (misspelled?)",
    "missing": "is missing",
    "string_pattern_mismatch": (
        "is not a usable name: a name has letters, digits and . _ : / - and begins with a letter or digit"
    ),
    "url_parsing": _INVALID_URL,
    "url_scheme": _INVALID_URL,
    "url_type": _INVALID_URL,
    "url_too_long": _INVALID_URL,
}
_NOT_A_TABLE = ("dict_type", "model_type", "model_attributes_type")


def explain(error: ValidationError, replaced: Mapping[tuple[int | str, ...], str]) -> list[tuple[str, str]]:
    """Each wrong key with a reason; `replaced` maps keys to the variables that set them."""
    found: list[tuple[str, str]] = []
    for problem in error.errors(include_url=False):
        key = _key(problem["loc"])
        variable = replaced.get(problem["loc"])
        source = f" (from {variable})" if variable else ""
        found += [(f"{key}{source}", line) for line in _reason(problem).splitlines()]
    return found


def _key(path: Sequence[int | str]) -> str:
    """`skip_prices[0].price`; names with dots are quoted, as in the file."""
    key = ""
    for part in path:
        if isinstance(part, int):
            key += f"[{part}]"
        elif part != "[key]":
            key += ("." if key else "") + (f'"{part}"' if "." in part or " " in part else part)
    return key


def _reason(problem: ErrorDetails) -> str:
    kind = problem["type"]
    if kind in _MESSAGES:
        return _MESSAGES[kind]
    if kind == "value_error":
        return problem["msg"].removeprefix("Value error, ")
    if kind == "too_short":
        return f"needs at least {problem['ctx']['min_length']} entry"
    message = (
        "should be a table" if kind in _NOT_A_TABLE else problem["msg"].replace("Input should", "should", 1)
    )
    return f"{message}, not {_shown(problem['input'])}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
