"""Hot routes past the framework: half of their cost would be routing and wrapping."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from beacon_http.replies import Reply

Answer = Callable[[Scope, Receive], Awaitable[Reply]]
Refuse = Callable[[Exception, str], Reply]


class _HotRoute(NamedTuple):
    answer: Answer
    documented: BaseRoute


class FastLane:
    """Answers POSTs to the `hot` paths. Everything else goes to `rest`, which has the same routes among
    `documented`. `refuse` makes the reply to an error, as the framework's handlers would.
    """

    def __init__(
        self, hot: Mapping[str, Answer], documented: Sequence[BaseRoute], *, refuse: Refuse, rest: ASGIApp
    ) -> None:
        self._hot = {path: _HotRoute(answer, _route(path, documented)) for path, answer in hot.items()}
        self._refuse = refuse
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hot = self._hot.get(scope["path"]) if scope["type"] == "http" else None
        if hot is None or scope["method"] != "POST":
            await self._rest(scope, receive, send)
            return
        scope["route"] = hot.documented  # the metrics read it
        try:
            reply = await hot.answer(scope, receive)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the framework's handlers are not around this
            reply = self._refuse(error, scope["path"])
        await reply.send(send)


def _route(path: str, documented: Sequence[BaseRoute]) -> BaseRoute:
    return next(route for route in documented if _is(route, path))


def _is(route: BaseRoute, path: str) -> bool:
    return isinstance(route, APIRoute) and route.path == path and "POST" in (route.methods or ())
