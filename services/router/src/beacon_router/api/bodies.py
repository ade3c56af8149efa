"""What a client sends, strict about JSON."""

from typing import Any

import orjson

from beacon_web.problems import HttpProblemError


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body: valid UTF-8, no NaN, no endless numbers, not too deep."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HttpProblemError(400, "invalid_json", f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise HttpProblemError(400, "invalid_json", "the body must be a JSON object")
    return document


def json_text(field: str, value: Any) -> bytes:
    """A part of a body as JSON text again; what is nested too deep to be written is refused."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise HttpProblemError(422, "invalid_field", f"{field}: {error}") from None
