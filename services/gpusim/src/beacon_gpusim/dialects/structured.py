"""Tool calls and structured output: a value that fits a JSON schema."""

from collections.abc import Mapping
from typing import Any

import orjson

from beacon_gpusim.dialects.parsed_call import BadInputError

_MAX_DEPTH = 32
_VALUES: Mapping[str, Any] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None}


def tool_call(data: Mapping[str, Any], text: str) -> tuple[str, str] | None:
    """The name and the arguments of the tool that is called: the requested one, or the first.

    None without tools, with `tool_choice: none`, and after the result of a tool.
    """
    tools, choice = data.get("tools") or [], data.get("tool_choice")
    if not tools or choice == "none" or data["messages"][-1]["role"] == "tool":
        return None
    wanted = choice["function"]["name"] if isinstance(choice, dict) else None
    try:
        functions = [tool["function"] for tool in tools]
        called = next(one for one in functions if wanted in (None, one["name"]))
    except (LookupError, TypeError, StopIteration):
        raise BadInputError("tools: must be a list of functions with the requested name") from None
    schema = called.get("parameters") or {}
    return called["name"], orjson.dumps(value_of(schema, text)).decode()


def structured_text(data: Mapping[str, Any], text: str) -> str:
    """The text, or JSON if `response_format` asks for that."""
    wanted = data.get("response_format") or {}
    match wanted.get("type", "text"):
        case "json_object":
            return orjson.dumps({"answer": text}).decode()
        case "json_schema":
            return orjson.dumps(value_of(wanted["json_schema"].get("schema") or {}, text)).decode()
    return text


def value_of(schema: Mapping[str, Any], text: str) -> Any:
    """A value that fits the schema; strings have the text."""
    return _value(schema, schema.get("$defs") or {}, text, 0)


def _value(schema: Mapping[str, Any], definitions: Mapping[str, Any], text: str, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise BadInputError("the JSON schema is nested too deep")
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return _value(schema[name][0], definitions, text, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "array":
        return [_value(schema.get("items") or {}, definitions, text, depth + 1)]
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties") or {}
        return {name: _value(one, definitions, text, depth + 1) for name, one in properties.items()}
    return text if kind == "string" else _VALUES.get(kind or "string")
