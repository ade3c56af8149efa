"""`/v1/chat/completions` and `/v1/models`, as OpenAI's clients call them."""

from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from beacon_http.replies import Headers
from beacon_router.http.chat_errors import CHAT_PREFIX
from beacon_router.http.chat_handler import ChatHandler, Streamed

_COMPLETION: dict[str, Any] = {
    "description": "A completion, or server-sent events",
    "content": {
        "application/json": {"schema": {"type": "object"}},
        # The schema of one event, whose data is a chunk as OpenAI's clients know it, or [DONE].
        "text/event-stream": {"schema": {"type": "object", "properties": {"data": {"type": "string"}}}},
    },
}
_REQUEST: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["model", "messages"],
                "properties": {
                    "model": {"type": "string"},
                    "messages": {"type": "array", "items": {"type": "object"}},
                    "stream": {"type": "boolean"},
                },
                "additionalProperties": True,
            },
            "example": {
                "model": "llama3.2-1b",
                "messages": [{"role": "user", "content": "Why is the sky blue?"}],
                "stream": True,
            },
        }
    },
}
_REGION: dict[str, Any] = {
    "name": "X-Beacon-Region",
    "in": "header",
    "required": False,
    "description": "Run there and nowhere else; without it, wherever the wait is shortest",
    "schema": {"type": "string"},
    "example": "EU",
}
_ERROR = {
    "content": {
        "application/json": {
            "example": {
                "error": {
                    "message": "The model 'gpt-9' does not exist here",
                    "type": "invalid_request_error",
                    "param": "model",
                    "code": "model_not_found",
                }
            }
        }
    }
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": why, **_ERROR}
    for status, why in (
        (400, "Bad input"),
        (401, "Unknown key"),
        (404, "Unknown model"),
        (408, "Request timeout"),
        (413, "Too large"),
        (429, "Too many requests"),
        (502, "The backend failed"),
        (503, "Unavailable"),
        (504, "Timed out"),
    )
}


def chat_routes(handler: ChatHandler) -> APIRouter:
    routes = APIRouter(prefix=CHAT_PREFIX, tags=["openai"])

    @routes.post(
        "/chat/completions",
        summary="A chat completion, complete or streamed",
        responses={200: _COMPLETION, **_ERRORS},
        openapi_extra={"requestBody": _REQUEST, "parameters": [_REGION]},
    )
    async def complete(request: Request) -> Response:
        answer = await handler.complete(request)
        if isinstance(answer, Streamed):
            return ChatStream(answer.pieces, answer.headers)
        return answer.response()

    @routes.get("/models", summary="List the models", responses={401: _ERRORS[401]})
    async def models(request: Request) -> Response:
        return (await handler.models(request.scope)).response()

    @routes.get(
        "/models/{name:path}",
        summary="One model",
        responses={401: _ERRORS[401], 404: _ERRORS[404]},
    )
    async def model(request: Request, name: str) -> Response:
        return (await handler.model(request.scope, name)).response()

    return routes


class ChatStream(Response):
    """Sends pieces as they arrive; always closes the generator, which ends the inference."""

    def __init__(self, pieces: AsyncIterator[bytes], headers: Headers) -> None:
        super().__init__(
            headers={name.decode(): value.decode() for name, value in headers}
            | {"cache-control": "no-store"},
            media_type="text/event-stream",
        )
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            close = getattr(self._pieces, "aclose", None)
            if close is not None:
                await close()
