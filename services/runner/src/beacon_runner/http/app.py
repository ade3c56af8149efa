"""The ASGI application: routes, errors, request ids and metrics."""

from collections.abc import Iterable, Sequence

from fastapi import APIRouter
from fastapi_offline import FastAPIOffline
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from beacon_http.head import HeadMiddleware
from beacon_http.openapi import document_api
from beacon_http.request_body import BodyLimits, RequestBodyMiddleware
from beacon_runner.http.openai.errors import EXPECTED_ERRORS as OPENAI_ERRORS
from beacon_runner.http.openai.errors import PREFIX, error_reply
from beacon_runner.http.openapi import KEYS, RAW_BODIES
from beacon_runner.http.problems import EXPECTED_ERRORS, problem_response
from beacon_telemetry import HttpMetrics, TelemetryMiddleware

CORS_MAX_AGE_S = 600
# What scripts of other origins may read besides the headers that every script may read.
EXPOSED_HEADERS = (
    "location",
    "retry-after",
    "x-request-id",
    "x-should-retry",
    "x-beacon-position",
    "x-beacon-eta",
    "x-beacon-region",
    "x-beacon-backend",
    *(
        f"x-ratelimit-{value}-{name}"
        for name in ("requests", "concurrent-requests")
        for value in ("limit", "remaining", "reset")
    ),
)


def create_app(
    routers: Iterable[APIRouter],
    pages: Iterable[BaseRoute],
    *,
    bodies: BodyLimits,
    metrics: HttpMetrics,
    cors_origins: Sequence[str] = (),
    access_log: bool,
) -> ASGIApp:
    """`pages` have the lowest precedence; an unknown path is answered with a problem document.

    `/docs` is served without a CDN: a script of another origin could read the keys that the portal stores.
    """
    app = FastAPIOffline(
        title="Beacon runner",
        version="0.1.0",
        description="Durable, fair queueing of jobs for slow and scarce GPUs.",
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    # `include_router` adds a level of dispatch to every request. Routes are tried in order: /docs comes last.
    app.router.routes[:0] = [route for router in routers for route in router.routes]
    app.router.routes.extend(pages)
    for error in (*EXPECTED_ERRORS, *OPENAI_ERRORS, Exception):
        app.add_exception_handler(error, _on_error)
    document_api(app, RAW_BODIES, KEYS)
    limited: ASGIApp = RequestBodyMiddleware(HeadMiddleware(app), bodies)
    if cors_origins:
        limited = CORSMiddleware(
            limited,
            allow_origins=cors_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=EXPOSED_HEADERS,
            max_age=CORS_MAX_AGE_S,
        )
    return TelemetryMiddleware(limited, metrics, access_log=access_log)


async def _on_error(request: Request, error: Exception) -> Response:
    """Every error in the format of the API that was called."""
    path = request.url.path
    reply = error_reply if f"{path}/".startswith(f"{PREFIX}/") else problem_response
    return reply(error, path).response()
