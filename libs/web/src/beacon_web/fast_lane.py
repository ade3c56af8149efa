"""One hot route past the framework: half of its cost would be routing and wrapping."""

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from beacon_web.replies import Reply


class HotRoute(NamedTuple):
    """POSTs to this path. `refuse` makes the reply to an error, as the framework's handlers would."""

    path: str
    answer: Callable[[Scope, Receive], Awaitable[Reply]]
    refuse: Callable[[Exception, str], Reply]


class FastLane:
    """Everything else goes to `rest`, which has the same route among `documented`."""

    def __init__(self, hot: HotRoute, documented: Iterable[BaseRoute], *, rest: ASGIApp) -> None:
        self._path, self._answer, self._refuse = hot
        self._route = next(route for route in documented if _is(route, hot.path))
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path or scope["method"] != "POST":
            await self._rest(scope, receive, send)
            return
        scope["route"] = self._route  # the metrics read it
        try:
            reply = await self._answer(scope, receive)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the framework's handlers are not around this
            reply = self._refuse(error, self._path)
        await reply.send(send)


def _is(route: BaseRoute, path: str) -> bool:
    return isinstance(route, APIRoute) and route.path == path and "POST" in (route.methods or ())
