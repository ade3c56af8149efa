"""An answer before it is sent: written straight to the connection on the hot path, wrapped elsewhere."""

import math
from http import HTTPStatus
from typing import NamedTuple

import orjson
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Send

from beacon_contracts.problem import CONTENT_TYPE, Problem

JSON = b"application/json"
_PROBLEM = CONTENT_TYPE.encode()

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode() for status in HTTPStatus}
_ENCODED = b"%b\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b\r\n%b"

Headers = tuple[tuple[bytes, bytes], ...]


class Reply(NamedTuple):
    status: int
    body: bytes
    headers: Headers = ()
    content_type: bytes = JSON

    async def send(self, send: Send) -> None:
        start = [
            (b"content-type", self.content_type),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": start})
        await send({"type": "http.response.body", "body": self.body})

    def encoded(self, *more: tuple[bytes, bytes]) -> bytes:
        """The whole answer as HTTP/1.1 has it, for connections that the service writes to itself."""
        others = b"".join([b"%b: %b\r\n" % pair for pair in (*self.headers, *more)])
        line, length = _STATUS_LINES[self.status], len(self.body)
        return _ENCODED % (line, self.content_type, length, others, self.body)

    def response(self) -> Response:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.headers}
        return Response(self.body, self.status, headers, self.content_type.decode("latin-1"))


def view_response(view: BaseModel, status: int = 200) -> Response:
    """A view as it is: it was validated when it was made, so the framework need not do it again."""
    body = view.__pydantic_serializer__.to_json(view, by_alias=True)
    return Response(body, status, media_type="application/json")


def problem_reply(problem: Problem, headers: Headers = ()) -> Reply:
    headers = with_retry_after(headers, problem.retry_after_s)
    return Reply(problem.status, orjson.dumps(problem.document()), headers, _PROBLEM)


def with_retry_after(headers: Headers, seconds: float | None) -> Headers:
    """Whole seconds, at least one."""
    if seconds is None:
        return headers
    return (*headers, (b"retry-after", b"%d" % max(1, math.ceil(seconds))))
