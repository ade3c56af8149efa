"""The class of every route: a parameter that the route does not have is an error, not ignored."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from beacon_runner.domain.errors import InvalidFieldsError

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class StrictRoute(APIRoute):
    """Answers 422 for unknown query parameters: a misspelt filter would otherwise return everything."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        known = {field.alias for field in self.dependant.query_params}

        async def check_query(request: Request) -> Response:
            if request.scope["query_string"]:
                for name in request.query_params:
                    if name not in known:
                        raise _unknown(name, known)
            return await handle(request)

        return check_query


def _unknown(name: str, known: set[str]) -> InvalidFieldsError:
    names = ", ".join(sorted(known)) or "none"
    message = f"is no query parameter of this path; known are {names}"
    return InvalidFieldsError.of(name[:100], message, "unknown_parameter")
