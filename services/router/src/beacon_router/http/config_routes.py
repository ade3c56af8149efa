"""What the router runs on, for the runner, which sends newer revisions."""

from collections.abc import Callable

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.configuration import RouterConfigRequest, RouterConfigView
from beacon_http.json_body import json_object
from beacon_router.http.auth import ServiceAuth
from beacon_router.http.openapi import problems

JSON = "application/json"


def config_routes(
    view: Callable[[], RouterConfigView],
    apply: Callable[[RouterConfigRequest], RouterConfigView],
    auth: ServiceAuth,
) -> APIRouter:
    routes = APIRouter(tags=["configuration"])
    answers = {200: {"model": RouterConfigView}, **problems(401, 403)}

    @routes.get("/config", summary="The revision of the configuration that applies", responses=answers)
    async def get_config(request: Request) -> Response:
        auth.check(request.scope)
        return _shown(view())

    @routes.put(
        "/config",
        summary="Apply a revision; one that cannot be applied changes nothing, and `errors` says why",
        responses={**answers, **problems(400, 413, 422)},
    )
    async def put_config(request: Request) -> Response:
        auth.check(request.scope)
        return _shown(apply(RouterConfigRequest.model_validate(json_object(await request.body()))))

    return routes


def _shown(view: RouterConfigView) -> Response:
    return Response(orjson.dumps(view.model_dump(mode="json")), media_type=JSON)
