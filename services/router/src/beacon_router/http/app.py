"""The ASGI application: routes, errors, request ids and metrics."""

from collections.abc import Iterable

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from beacon_http.openapi import document_api
from beacon_http.request_body import BodyLimits, RequestBodyMiddleware
from beacon_router.http.batch_handler import BatchHandler
from beacon_router.http.inference_handler import InferenceHandler
from beacon_router.http.inference_routes import inference_routes
from beacon_router.http.openapi import KEYS, RAW_BODIES
from beacon_router.http.problems import EXPECTED_ERRORS, refusal
from beacon_telemetry import HttpMetrics, TelemetryMiddleware


def create_app(
    handler: InferenceHandler,
    batches: BatchHandler,
    others: Iterable[APIRouter],
    *,
    bodies: BodyLimits,
    metrics: HttpMetrics,
    access_log: bool,
) -> ASGIApp:
    app = FastAPI(
        title="Beacon router",
        version="0.1.0",
        description="Decides, each time a GPU slot frees, which single inference runs there next.",
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    # Before the routes of the documentation, which are compared with each request until one matches, and
    # without `include_router`, which adds a level of dispatch.
    own = (inference_routes(handler, batches), *others)
    app.router.routes[:0] = [route for router in own for route in router.routes]
    for error in (*EXPECTED_ERRORS, Exception):
        app.add_exception_handler(error, on_error)
    document_api(app, RAW_BODIES, KEYS)
    limited = RequestBodyMiddleware(app, bodies)
    return TelemetryMiddleware(limited, metrics, access_log=access_log)


async def on_error(request: Request, error: Exception) -> Response:
    return refusal(error, request.url.path).response()
