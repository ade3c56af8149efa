"""Request bodies: bounded memory, strict JSON."""

from typing import Any

import orjson
from starlette.requests import Request

from beacon_http.problems import HttpProblemError
from beacon_http.request_body import content_length, read_body
from beacon_router.service.errors import MemoryFullError
from beacon_router.service.inference_store import InferenceStore

RETRY_AFTER_S = 1.0


class BodyReader:
    """Reads a body after reserving memory for it: its announced length, or the largest that is allowed."""

    def __init__(self, store: InferenceStore, max_bytes: int) -> None:
        self._store = store
        self._max_bytes = max_bytes

    async def read(self, request: Request) -> bytearray:
        announced = content_length(request.scope)
        reserved = self._max_bytes if announced is None else min(announced, self._max_bytes)
        if not self._store.has_room(reserved):
            raise MemoryFullError("the memory for inputs is full", RETRY_AFTER_S)
        self._store.arriving_bytes += reserved
        try:
            return await read_body(request.receive)
        finally:
            self._store.arriving_bytes -= reserved


def json_text(field: str, value: Any) -> bytes:
    """A part of a body as JSON text; refused if it is nested too deep to be encoded."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise HttpProblemError(422, "invalid_field", f"{field}: {error}") from None
