"""The demand for GPUs, for operators and autoscalers."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.demand import GpuDemand
from beacon_http.replies import view_response
from beacon_runner.application.demand import DemandService
from beacon_runner.domain.queue.demand import DEFAULT_TARGET_WAIT_S
from beacon_runner.http.auth import ApiKeyCache, require_scope
from beacon_runner.http.openapi import DEMAND_EXAMPLE, problems

ANSWER = {"model": GpuDemand, "content": {"application/json": {"example": DEMAND_EXAMPLE}}}
Names = Annotated[list[str], Query(max_length=100)]
TargetWait = Annotated[
    float, Query(gt=0, le=86_400, description="The wait that `slots_needed` is computed for", examples=[60])
]


def demand_routes(demand: DemandService, keys: ApiKeyCache) -> APIRouter:
    scopes = require_scope(keys, Scope.ADMIN, Scope.SERVICE)
    routes = APIRouter(prefix="/admin", tags=["operations"], route_class=scopes)

    @routes.get("/demand", responses={200: ANSWER, **problems(401, 403, 422, 503)})
    async def get_demand(
        model: Names = [],  # noqa: B006 - FastAPI copies it
        region: Names = [],  # noqa: B006
        target_wait_s: TargetWait = DEFAULT_TARGET_WAIT_S,
    ) -> Response:
        """GPU seconds of work, waits and the slots that would meet a target, by model and region.

        `model` and `region` may be repeated. Also for keys with the scope `service`.
        """
        return view_response(await demand.current(target_wait_s, model, region))

    return routes
