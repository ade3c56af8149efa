"""`POST /api/v1/jobs` past the framework: half of its cost would be routing and wrapping."""

from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from beacon_runner.api.problems import refusal
from beacon_runner.api.submitting import SubmissionDesk

PATH = "/api/v1/jobs"


class FastLane:
    """Everything else goes to `rest`, which has the same route for its documentation."""

    def __init__(self, desk: SubmissionDesk, route: BaseRoute, *, rest: ASGIApp) -> None:
        self._desk = desk
        self._route = route
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self._rest(scope, receive, send)
            return
        scope["route"] = self._route  # the metrics read it
        try:
            reply = await self._desk.submit(scope, receive)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the framework's handlers are not around this
            reply = refusal(error, PATH)
        await reply.send(send)
