"""The size of a body, by the path of the request."""

from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from beacon_http.request_body import BodyLimits, RequestBodyMiddleware

LIMITS = BodyLimits(10, 30.0, {"/v1/": 100})


async def received(path: str, size: int, *, announced: bool) -> int:
    """The length of a body as the application receives it, sent in parts of 5 bytes."""
    left = size

    async def receive() -> Message:
        nonlocal left
        part = min(5, left)
        left -= part
        return {"type": "http.request", "body": b"x" * part, "more_body": left > 0}

    read = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal read
        more = True
        while more:
            message = await receive()
            read += len(message["body"])
            more = message["more_body"]

    async def send(message: Message) -> None:
        raise AssertionError(message)

    headers = [(b"content-length", str(size).encode())] if announced else []
    scope: dict[str, Any] = {"type": "http", "path": path, "headers": headers}
    await RequestBodyMiddleware(app, LIMITS)(scope, receive, send)
    return read


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize(
    ("path", "limit"), [("/api/v1/jobs", 10), ("/v1/chat/completions", 100), ("/v1", 10)]
)
async def test_each_path_has_its_limit(path: str, limit: int, announced: bool) -> None:
    assert await received(path, limit, announced=announced) == limit
    with pytest.raises(HTTPException, match=rf"larger than {limit} bytes"):
        await received(path, limit + 1, announced=announced)
