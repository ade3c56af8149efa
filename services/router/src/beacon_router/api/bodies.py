"""Reading what a client sends: bounded, and strict about JSON."""

from typing import Any

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from beacon_router.api.problems import HttpProblemError


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body; one that is longer than the limit is refused without being held."""
    if _announced(scope) > limit:
        raise _too_large(limit)
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        if len(body) > limit:
            break
        message = await receive()
        body += message.get("body", b"")
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


def _too_large(limit: int) -> HttpProblemError:
    # What was not read cannot be skipped: the connection ends with this answer.
    close = ((b"connection", b"close"),)
    return HttpProblemError(413, "body_too_large", f"the body may have {limit} bytes", headers=close)


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
