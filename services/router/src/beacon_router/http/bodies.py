"""What a client sends, strict about JSON."""

from typing import Any

import orjson
from starlette.types import Receive, Scope

from beacon_http.bodies import announced_length, read_body
from beacon_http.problems import HttpProblemError
from beacon_router.service.dispatcher import Dispatcher


class BodyReader:
    """Bodies of so many bytes at most, and all that are coming in together within what may be held."""

    def __init__(self, dispatcher: Dispatcher, most: int) -> None:
        self._dispatcher = dispatcher
        self._most = most

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        announced, most = announced_length(scope), self._most
        with self._dispatcher.arriving(most if announced is None else min(announced, most)):
            return await read_body(scope, receive, most)


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
