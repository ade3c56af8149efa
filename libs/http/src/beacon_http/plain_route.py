"""A route whose function takes the request and returns the response."""

from collections.abc import Callable, Coroutine
from typing import Any, cast

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response


class PlainRoute(APIRoute):
    """There are no parameters to resolve: FastAPI documents the route, and calls its function directly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return cast("Callable[[Request], Coroutine[Any, Any, Response]]", self.endpoint)
