"""Responses as plain values: status, body, headers."""

import math
from typing import NamedTuple

import orjson
from pydantic import BaseModel
from starlette.responses import Response

from beacon_contracts.problem import CONTENT_TYPE, Problem

JSON = b"application/json"
_PROBLEM = CONTENT_TYPE.encode()

Headers = tuple[tuple[bytes, bytes], ...]


class Reply(NamedTuple):
    status: int
    body: bytes
    headers: Headers = ()
    content_type: bytes = JSON

    def response(self) -> Response:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.headers}
        return Response(self.body, self.status, headers, self.content_type.decode("latin-1"))


def view_response(view: BaseModel, status: int = 200) -> Response:
    """The view as JSON. It was validated when it was built, so the framework does not validate it again."""
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
