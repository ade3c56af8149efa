"""Reading what a client sends: bounded, and strict about JSON."""

from typing import Any

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from beacon_router.api.problems import HttpProblemError

# A client that is still sending does not see an answer: so much more is read and thrown away first.
_PATIENCE = 8


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body; of one that is longer than the limit no more than the limit is held."""
    too_long = _announced(scope) > limit
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body") and not too_long:
        message = await receive()
        body += message.get("body", b"")
        too_long = len(body) > limit
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    if too_long or len(body) > limit:
        if message.get("more_body"):
            await _skip(receive, limit * _PATIENCE)
        raise _too_large(limit)
    return body


async def _skip(receive: Receive, most: int) -> None:
    skipped = 0
    while skipped < most:
        message = await receive()
        skipped += len(message.get("body", b""))
        if not message.get("more_body"):
            return


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
