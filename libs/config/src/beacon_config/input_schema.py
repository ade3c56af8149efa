"""The JSON Schema of a model's input, checked when the configuration is loaded."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import AfterValidator
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_SCHEMA_BYTES = 65_536
_REFERENCES = ("$ref", "$dynamicRef")


def _usable_schema(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    if size > MAX_SCHEMA_BYTES:
        raise ValueError(f"has {size} bytes; at most {MAX_SCHEMA_BYTES} are allowed")
    if schema.get("$schema", DIALECT) != DIALECT:
        raise ValueError(f"has another $schema than {DIALECT}")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"is not a JSON Schema: {error.json_path}: {error.message[:200]}") from error
    except RecursionError as error:
        raise ValueError("is nested too deep") from error
    _check_references(schema)
    try:
        Draft202012Validator(schema).is_valid({})
    except RecursionError as error:
        raise ValueError("refers to itself without end") from error
    return schema


def _check_references(schema: dict[str, Any]) -> None:
    """Only to parts of the same schema that exist: nothing is ever fetched."""
    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for key, value in _keywords(schema):
        if key == "$id":
            raise ValueError("has an $id; references within one schema need none")
        if key in _REFERENCES:
            if not value.startswith("#"):
                raise ValueError(
                    f"refers to {value[:100]!r}; only references to its own parts (#/…) are allowed"
                )
            try:
                resolver.lookup(value)
            except Unresolvable as error:
                raise ValueError(f"refers to {value[:100]!r}, which it does not have") from error


def _keywords(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str):
                yield key, inner
            else:
                yield from _keywords(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keywords(inner)


InputSchema = Annotated[dict[str, Any], AfterValidator(_usable_schema)]
