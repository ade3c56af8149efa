"""The routes of `/inference`, with their documentation."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.inference import HIGHEST_FENCE, InferenceView
from beacon_router.http.inference_handler import InferenceHandler
from beacon_router.http.openapi import ASK_BODY, PREFER_HEADER, problems

Fence = Annotated[
    int | None,
    Query(
        ge=0,
        le=HIGHEST_FENCE,
        description="Refused when a later lease has taken it over; earlier ones are refused from then on",
    ),
]


def inference_routes(desk: InferenceHandler) -> APIRouter:
    routes = APIRouter(tags=["inference"])

    @routes.post(
        "/inference",
        summary="Run one inference and answer with its result",
        responses={
            200: {"model": InferenceView, "description": "It is over: completed, failed or cancelled"},
            202: {"model": InferenceView, "description": "Not done yet; follow Location"},
            **problems(400, 401, 403, 408, 409, 413, 422, 429, 503, 504),
        },
        openapi_extra={"requestBody": ASK_BODY, "parameters": [PREFER_HEADER]},
    )
    async def ask(request: Request) -> Response:
        return (await desk.ask(request.scope, request.receive)).response()

    @routes.get(
        "/inference/{request_id:path}",
        summary="Where an inference stands, or its result; waits with Prefer",
        responses={
            200: {"model": InferenceView, "description": "It is over"},
            202: {"model": InferenceView, "description": "Not done yet"},
            **problems(401, 403, 404, 503, 504),
        },
        openapi_extra={"parameters": [PREFER_HEADER]},
    )
    async def look(request: Request, request_id: str) -> Response:
        return (await desk.look(request.scope, request.receive, request_id)).response()

    @routes.delete(
        "/inference/{request_id:path}",
        summary="Cancel it, queued or running; a running one frees its slot at once",
        responses={200: {"model": InferenceView}, **problems(401, 403, 404, 409, 422)},
    )
    async def cancel(request: Request, request_id: str, fence: Fence = None) -> Response:
        return desk.cancel(request.scope, request_id, fence).response()

    return routes
