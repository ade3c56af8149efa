"""Reading what a client sends: bounded, and strict about JSON."""

from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from beacon_router.api.problems import HttpProblemError

# Deeper than any sensible input, and within what every JSON writer on the way can write again.
MAX_DEPTH = 200


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body; one that is longer than the limit is refused without being held."""
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    message = await request.receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        body = await _read_rest(request, body, limit)
    elif message["type"] == "http.disconnect":
        raise ClientDisconnect
    if len(body) > limit:
        raise _too_large(limit)
    return body


async def _read_rest(request: Request, first: bytes, limit: int) -> bytes:
    pieces = bytearray(first)
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces += message.get("body", b"")
        if len(pieces) > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return bytes(pieces)


def _too_large(limit: int) -> HttpProblemError:
    return HttpProblemError(
        413, "body_too_large", f"the body may have {limit} bytes", headers={"connection": "close"}
    )


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body: valid UTF-8, no NaN, no numbers without end, not too deep."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HttpProblemError(400, "invalid_json", f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise HttpProblemError(400, "invalid_json", "the body must be a JSON object")
    return document


def json_text(field: str, value: Any) -> bytes:
    """The part of a body as JSON text again."""
    try:
        return orjson.dumps(value)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise HttpProblemError(422, "invalid_field", f"{field}: {error}") from None
