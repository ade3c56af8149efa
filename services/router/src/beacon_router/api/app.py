"""The ASGI application: routes, errors, request ids and metrics."""

from collections.abc import Iterable

from fastapi import APIRouter, FastAPI
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from beacon_router.api.desk import InferenceDesk
from beacon_router.api.documents import KEYS, RAW_BODIES
from beacon_router.api.inference_routes import inference_routes
from beacon_router.api.problems import FORESEEN, on_error, refusal
from beacon_telemetry import HttpMetricsMiddleware, RequestContextMiddleware
from beacon_web.documents import document_api
from beacon_web.fast_lane import FastLane, HotRoute


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
    document_api(app, RAW_BODIES, KEYS)
    lane = FastLane(HotRoute("/inference", desk.ask, refusal), inference.routes, rest=app)
    measured = HttpMetricsMiddleware(lane, registry=registry, prefix="beacon_router")
    return RequestContextMiddleware(measured, access_log=access_log)
