"""Status, health and metrics."""

from collections.abc import Callable

import orjson
from fastapi import APIRouter
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.router_status import QueueStatus, RegionStatus, SchedulerStatus
from beacon_http.problems import HttpProblemError
from beacon_router.http.auth import ServiceAuth
from beacon_router.http.openapi import problems
from beacon_router.http.status import StatusReader
from beacon_telemetry import metrics_route

JSON = "application/json"


def status_routes(status: StatusReader, auth: ServiceAuth) -> APIRouter:
    routes = APIRouter(tags=["status"])
    refusals = problems(401, 403)

    @routes.get(
        "/queue/status",
        summary="Every region's queues, runs and backends, and the caps they share",
        responses={200: {"model": QueueStatus}, **refusals},
    )
    async def queues(request: Request) -> Response:
        auth.check(request.scope)
        return _shown(status.queues())

    @routes.get(
        "/queue/status/{region}",
        summary="One region, under any of its names",
        responses={200: {"model": RegionStatus}, **refusals, **problems(404)},
    )
    async def one_region(request: Request, region: str) -> Response:
        auth.check(request.scope)
        found = status.region(region)
        if found is None:
            raise HttpProblemError(404, "unknown_region", f"there is no region {region[:60]!r}")
        return _shown(found)

    @routes.get(
        "/status",
        summary="The scheduler: last model, batch count, limits per tier, estimated waits",
        responses={200: {"model": SchedulerStatus}, **refusals},
    )
    async def scheduler(request: Request) -> Response:
        auth.check(request.scope)
        return _shown(status.scheduler())

    return routes


def health_routes(registry: CollectorRegistry, unready: Callable[[], str | None]) -> APIRouter:
    """`unready` says why the router should get no traffic now; None when it should."""
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz", summary="The process runs")
    async def alive() -> Response:
        return Response(b'{"status":"ok"}', media_type=JSON)

    @routes.get("/readyz", summary="The router takes inferences", responses=problems(503))
    async def ready() -> Response:
        reason = unready()
        if reason is not None:
            raise HttpProblemError(503, "not_ready", reason, retry_after_s=1.0)
        return Response(b'{"status":"ready"}', media_type=JSON)

    routes.routes.append(metrics_route(registry))
    return routes


def _shown(view: BaseModel) -> Response:
    return Response(orjson.dumps(view.model_dump(mode="json")), media_type=JSON)
