"""Status, health and metrics."""

from collections.abc import Callable

import orjson
from fastapi import APIRouter
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.router_status import QueueStatus, RegionStatus, SchedulerStatus
from beacon_router.api.auth import ServiceAuth
from beacon_router.api.documents import problems
from beacon_router.api.problems import HttpProblemError, problem_response, retry_later
from beacon_router.api.status import StatusReader
from beacon_telemetry import metrics_route

JSON = "application/json"


class StatusRoutes:
    """`unready` says why the router should get no traffic now; None when it should."""

    def __init__(
        self,
        status: StatusReader,
        auth: ServiceAuth,
        *,
        registry: CollectorRegistry,
        unready: Callable[[], str | None],
    ) -> None:
        self._status = status
        self._auth = auth
        self._registry = registry
        self._unready = unready

    def router(self) -> APIRouter:
        routes = APIRouter(tags=["status"])
        refusals = problems(401, 403)
        routes.add_api_route(
            "/queue/status",
            self.queues,
            summary="Every region's queues, runs and backends, and the caps they share",
            responses={200: {"model": QueueStatus}, **refusals},
        )
        routes.add_api_route(
            "/queue/status/{region}",
            self.region,
            summary="One region, under any of its names",
            responses={200: {"model": RegionStatus}, **refusals, **problems(404)},
        )
        routes.add_api_route(
            "/status",
            self.scheduler,
            summary="The scheduler: last model, batch count, limits per tier, estimated waits",
            responses={200: {"model": SchedulerStatus}, **refusals},
        )
        routes.add_api_route("/healthz", self.alive, summary="The process runs")
        routes.add_api_route(
            "/readyz", self.ready, summary="The router takes inferences", responses=problems(503)
        )
        routes.routes.append(metrics_route(self._registry))
        return routes

    async def queues(self, request: Request) -> Response:
        self._auth.check(request.scope)
        return _shown(self._status.queues())

    async def region(self, request: Request, region: str) -> Response:
        self._auth.check(request.scope)
        status = self._status.region(region)
        if status is None:
            raise HttpProblemError(404, "unknown_region", f"there is no region {region[:60]!r}")
        return _shown(status)

    async def scheduler(self, request: Request) -> Response:
        self._auth.check(request.scope)
        return _shown(self._status.scheduler())

    async def alive(self) -> Response:
        return Response(b'{"status":"ok"}', media_type=JSON)

    async def ready(self) -> Response:
        reason = self._unready()
        if reason is not None:
            return problem_response(retry_later(503, "not_ready", reason, 1.0))
        return Response(b'{"status":"ready"}', media_type=JSON)


def _shown(view: BaseModel) -> Response:
    return Response(orjson.dumps(view.model_dump(mode="json")), media_type=JSON)
