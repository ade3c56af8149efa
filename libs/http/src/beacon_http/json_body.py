"""JSON bodies of requests that are parsed without FastAPI."""

from typing import Any

import orjson

from beacon_http.problems import HttpProblemError


def json_object(body: bytes | bytearray) -> dict[str, Any]:
    """The JSON object of a body: valid UTF-8, no NaN, no infinite numbers, not nested too deep."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HttpProblemError(400, "invalid_json", f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise HttpProblemError(400, "invalid_json", "the body must be a JSON object")
    return document
