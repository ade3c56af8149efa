"""Routes that look at the key before anything else: who may not enter learns nothing of what is inside."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_runner.http.auth import ApiKeyCache

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def locked(keys: ApiKeyCache, needed: Scope) -> type[APIRoute]:
    """For `APIRouter(route_class=...)`: 401 and 403 come before any word about path, query or body."""

    class LockedRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            handle = super().get_route_handler()

            async def open_with_key(request: Request) -> Response:
                await keys.require(request.scope, needed)
                return await handle(request)

            return open_with_key

    return LockedRoute
