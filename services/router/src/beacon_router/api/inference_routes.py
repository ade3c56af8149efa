"""`/inference`: ask for one, look at it, wait for it, cancel it."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.inference import InferenceView
from beacon_router.api.asking import AskReader
from beacon_router.api.auth import ServiceAuth
from beacon_router.api.bodies import read_body
from beacon_router.api.documents import ASK_BODY, PREFER_HEADER, problems
from beacon_router.api.prefer import AT_ONCE, UNTIL_DONE, Preference, read_preference
from beacon_router.api.problems import problem_response, retry_later
from beacon_router.api.views import Views
from beacon_router.core import RequestId
from beacon_router.dispatch.causes import ROUTER_STOPPING, START_BY_PASSED
from beacon_router.dispatch.dispatcher import Dispatcher
from beacon_router.dispatch.inference import Inference

JSON = "application/json"
_ASK_ELSEWHERE_S = 1.0
_TAGS: list[str] = ["inference"]


class InferenceRoutes:
    def __init__(
        self, dispatcher: Dispatcher, reader: AskReader, views: Views, auth: ServiceAuth, *, body_bytes: int
    ) -> None:
        self._dispatcher = dispatcher
        self._reader = reader
        self._views = views
        self._auth = auth
        self._body_bytes = body_bytes

    def router(self) -> APIRouter:
        routes = APIRouter(tags=list(_TAGS))
        routes.add_api_route(
            "/inference",
            self.ask,
            methods=["POST"],
            summary="Run one inference and answer with its result",
            responses={
                200: {"model": InferenceView, "description": "It is over: completed, failed or cancelled"},
                202: {"model": InferenceView, "description": "Not done yet; follow Location"},
                **problems(400, 401, 403, 409, 413, 422, 429, 503, 504),
            },
            openapi_extra={"requestBody": ASK_BODY, "parameters": [PREFER_HEADER]},
        )
        routes.add_api_route(
            "/inference/{request_id:path}",
            self.look,
            methods=["GET"],
            summary="Where an inference stands, or its result; waits with Prefer",
            responses={
                200: {"model": InferenceView, "description": "It is over"},
                202: {"model": InferenceView, "description": "Not done yet"},
                **problems(401, 403, 404, 503, 504),
            },
            openapi_extra={"parameters": [PREFER_HEADER]},
        )
        routes.add_api_route(
            "/inference/{request_id:path}",
            self.cancel,
            methods=["DELETE"],
            summary="Cancel it, queued or running; a running one frees its slot at once",
            responses={200: {"model": InferenceView}, **problems(401, 403, 404, 409, 422)},
        )
        return routes

    async def ask(self, request: Request) -> Response:
        self._auth.check(request.scope)
        ask, payload = self._reader.read(await read_body(request, self._body_bytes))
        inference = self._dispatcher.submit(ask, payload)
        return await self._answer(inference, _preference(request, UNTIL_DONE))

    async def look(self, request: Request, request_id: str) -> Response:
        self._auth.check(request.scope)
        inference = self._dispatcher.get(RequestId(request_id))
        return await self._answer(inference, _preference(request, AT_ONCE))

    async def cancel(
        self,
        request: Request,
        request_id: str,
        fence: Annotated[
            int | None, Query(ge=0, description="Refused when a later lease has taken over")
        ] = None,
    ) -> Response:
        self._auth.check(request.scope)
        inference = self._dispatcher.cancel(RequestId(request_id), fence)
        return Response(self._views.render(inference), 200, media_type=JSON)

    async def _answer(self, inference: Inference, preference: Preference) -> Response:
        done = await self._dispatcher.wait(inference, preference.wait_s)
        if done and inference.failure is not None:
            refusal = _not_run(inference)
            if refusal is not None:
                return refusal
        headers = {}
        if preference.applied is not None:
            headers["preference-applied"] = preference.applied
        if not done:
            headers["location"] = f"/inference/{quote(inference.id, safe='')}"
        return Response(self._views.render(inference), 200 if done else 202, headers, JSON)


def _preference(request: Request, otherwise: Preference) -> Preference:
    values = [value.decode("latin-1") for name, value in request.scope["headers"] if name == b"prefer"]
    return read_preference(values, otherwise) if values else otherwise


def _not_run(inference: Inference) -> Response | None:
    """Failures that say nothing of the work itself: it costs the caller no attempt."""
    failure = inference.failure
    if failure is None:
        return None
    if failure.code == START_BY_PASSED:
        return problem_response(retry_later(504, START_BY_PASSED, failure.message, _ASK_ELSEWHERE_S))
    if failure.code == ROUTER_STOPPING:
        return problem_response(retry_later(503, ROUTER_STOPPING, failure.message, _ASK_ELSEWHERE_S))
    return None
