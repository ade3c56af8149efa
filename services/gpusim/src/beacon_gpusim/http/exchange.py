"""One HTTP request to a dialect endpoint: its body, its disconnect signal and plain responses."""

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from beacon_gpusim.dialects import BadInputError

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class HttpExchange:
    request: Request
    send: Send

    async def read_body(self, limit: int) -> bytes:
        """The whole body. Raises BadInputError above the limit, ClientDisconnect when incomplete."""
        body = bytearray()
        async for chunk in self.request.stream():
            body += chunk
            if len(body) > limit:
                raise BadInputError(
                    f"the body is larger than {limit} bytes", status=413, code="body_too_large"
                )
        return bytes(body)

    async def respond(
        self, status: int, body: bytes, *, media_type: str = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        response = Response(body, status, headers, media_type)
        await response(self.request.scope, self.request.receive, self.send)

    async def start(self, content_type: str, size: int | None) -> None:
        """Send the headers of a body that follows in parts; without a size it is chunked."""
        headers = [(b"content-type", content_type.encode())]
        if size is not None:
            headers.append((b"content-length", b"%d" % size))
        await self.send({"type": "http.response.start", "status": 200, "headers": headers})

    async def send_part(self, part: bytes) -> None:
        await self.send({"type": "http.response.body", "body": part, "more_body": True})

    async def end(self) -> None:
        await self.send({"type": "http.response.body", "body": b""})

    async def wait_disconnected(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
