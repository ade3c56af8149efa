"""The ASGI application: routes, errors, request ids and metrics."""

from collections.abc import Iterable

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from beacon_router.api.desk import InferenceDesk
from beacon_router.api.documents import document_api
from beacon_router.api.fast_lane import PATH, FastLane
from beacon_router.api.inference_routes import inference_routes
from beacon_router.api.problems import FORESEEN, on_error
from beacon_telemetry import HttpMetricsMiddleware, RequestContextMiddleware


def create_app(
    desk: InferenceDesk, others: Iterable[APIRouter], *, registry: CollectorRegistry, access_log: bool
) -> ASGIApp:
    app = FastAPI(
        title="Beacon router",
        version="0.1.0",
        description="Decides, each time a GPU slot frees, which single inference runs there next.",
        redoc_url=None,
    )
    inference = inference_routes(desk)
    for router in (inference, *others):
        app.include_router(router)
    for error in (*FORESEEN, Exception):
        app.add_exception_handler(error, on_error)
    document_api(app)
    ask = next(route for route in inference.routes if isinstance(route, APIRoute) and route.path == PATH)
    lane = FastLane(desk, ask, rest=app)
    measured = HttpMetricsMiddleware(lane, registry=registry, prefix="beacon_router")
    return RequestContextMiddleware(measured, access_log=access_log)
