"""The class of the API's routes: operation ids, direct calls, and unknown query parameters as errors."""

from collections.abc import Callable, Coroutine
from inspect import signature
from typing import Any, cast

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from beacon_runner.domain.errors import InvalidFieldsError

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class StrictRoute(APIRoute):
    """Answers 422 for unknown query parameters: a misspelt filter would otherwise return everything."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        # Client generators use the operation id as the name of the method.
        super().__init__(path, endpoint, **options | {"operation_id": getattr(endpoint, "__name__", None)})

    def endpoint_handler(self) -> Handler:
        """A function that takes only the request is called directly: FastAPI has nothing to resolve."""
        parameters = signature(self.endpoint).parameters.values()
        if [one.annotation for one in parameters] == [Request]:
            return cast("Handler", self.endpoint)
        return super().get_route_handler()

    def get_route_handler(self) -> Handler:
        handle = self.endpoint_handler()

        async def check_and_handle(request: Request) -> Response:
            self.check_query(request)
            return await handle(request)

        return check_and_handle

    def check_query(self, request: Request) -> None:
        known = {field.alias for field in self.dependant.query_params}
        for name in request.query_params:
            if name not in known:
                names = ", ".join(sorted(known)) or "none"
                message = f"is no query parameter of this path; known are {names}"
                raise InvalidFieldsError.of(name[:100], message, "unknown_parameter")
