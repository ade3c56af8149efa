"""Turns validation errors into sentences that name the key, what was given and what would be right."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

# An address is not shown: it may hold a password.
_NOT_AN_ADDRESS = "is not an address of the form http://host:port/path"
_SENTENCES = {
    "extra_forbidden": "is not a known key; is it a typing mistake?",
    "missing": "is missing",
    "string_pattern_mismatch": (
        "is not a usable name: a name has letters, digits and . _ : / - and begins with a letter or digit"
    ),
    "url_parsing": _NOT_AN_ADDRESS,
    "url_scheme": _NOT_AN_ADDRESS,
    "url_type": _NOT_AN_ADDRESS,
    "url_too_long": _NOT_AN_ADDRESS,
}
_NOT_A_TABLE = ("dict_type", "model_type", "model_attributes_type")


def explain(error: ValidationError, replaced: Mapping[tuple[int | str, ...], str]) -> list[str]:
    """One line for each mistake; `replaced` names the keys whose value came from a variable."""
    lines: list[str] = []
    for problem in error.errors(include_url=False):
        key = _key(problem["loc"])
        variable = replaced.get(problem["loc"])
        source = f" (from {variable})" if variable else ""
        lines += [f"{key}{source}: {line}" if key else line for line in _reason(problem).splitlines()]
    return lines


def _key(places: Sequence[int | str]) -> str:
    """`skip_prices[0].price`; names that have dots are quoted, as in the file."""
    key = ""
    for place in places:
        if isinstance(place, int):
            key += f"[{place}]"
        elif place != "[key]":
            key += ("." if key else "") + (f'"{place}"' if "." in place or " " in place else place)
    return key


def _reason(problem: ErrorDetails) -> str:
    kind = problem["type"]
    if kind in _SENTENCES:
        return _SENTENCES[kind]
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
