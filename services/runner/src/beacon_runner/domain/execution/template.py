"""Fills `{{ step.field }}` in a step's input from the results before it."""

from collections.abc import Mapping
from re import Match
from typing import Any

import orjson

from beacon_config.features import REFERENCE


class MissingReferenceError(Exception):
    """A template refers to something that the results before it do not have."""

    def __init__(self, reference: str) -> None:
        super().__init__(f"{{{{ {reference} }}}} refers to a result that is not there")
        self.reference = reference


def render(value: Any, names: Mapping[str, Any]) -> Any:
    """The value with its references filled; a string that is one reference alone keeps the result's type."""
    if isinstance(value, str):
        return _render_text(value, names)
    if isinstance(value, Mapping):
        return {key: render(inner, names) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [render(inner, names) for inner in value]
    return value


def references(value: Any) -> list[str]:
    """Every reference in the value, such as `input.prompt`."""
    if isinstance(value, str):
        return [match.group(1) + match.group(2) for match in REFERENCE.finditer(value)]
    if isinstance(value, Mapping):
        return [found for inner in value.values() for found in references(inner)]
    if isinstance(value, list | tuple):
        return [found for inner in value for found in references(inner)]
    return []


def resolve(reference: str, names: Mapping[str, Any]) -> Any:
    """The value of `step.field.field`."""
    found: Any = names
    for part in reference.split("."):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            raise MissingReferenceError(reference)
    return found


def _render_text(text: str, names: Mapping[str, Any]) -> Any:
    whole = REFERENCE.fullmatch(text)
    if whole is not None:
        return resolve(whole.group(1) + whole.group(2), names)

    def fill(match: Match[str]) -> str:
        found = resolve(match.group(1) + match.group(2), names)
        return found if isinstance(found, str) else orjson.dumps(found).decode()

    return REFERENCE.sub(fill, text)
