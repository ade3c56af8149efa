"""A route whose function takes the request and returns the response, which may be any ASGI application."""

from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import Receive, Scope, Send


class PlainRoute(APIRoute):
    """FastAPI documents the route; its function is called directly, without resolution of parameters."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **{**options, "response_model": None})
        self.app = self._respond

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)
