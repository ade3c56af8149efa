"""The ASGI application: routes, errors, request ids and metrics."""

from collections.abc import Iterable

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from beacon_http.head import HeadMiddleware
from beacon_http.openapi import document_api
from beacon_http.problems import HttpProblemError
from beacon_http.request_body import BodyLimits, RequestBodyMiddleware
from beacon_runner.application.submissions import SubmissionService
from beacon_runner.http.job_routes import submission_routes
from beacon_runner.http.openapi import KEYS, RAW_BODIES
from beacon_runner.http.problems import EXPECTED, on_error
from beacon_telemetry import HttpMetrics, HttpMetricsMiddleware, RequestContextMiddleware


def create_app(
    submitting: SubmissionService,
    others: Iterable[APIRouter],
    pages: Iterable[BaseRoute],
    *,
    bodies: BodyLimits,
    metrics: HttpMetrics,
    access_log: bool,
) -> ASGIApp:
    """`pages` come last: what they do not know, the API answers with a problem document."""
    app = FastAPI(
        title="Beacon runner",
        version="0.1.0",
        description="Durable, fair queueing of jobs for slow and scarce GPUs.",
        redoc_url=None,
    )
    for router in (submission_routes(submitting), *others):
        app.include_router(router)
    app.router.routes.extend(pages)
    for error in (*EXPECTED, HttpProblemError, Exception):
        app.add_exception_handler(error, on_error)
    document_api(app, RAW_BODIES, KEYS)
    limited = RequestBodyMiddleware(HeadMiddleware(app), bodies)
    return RequestContextMiddleware(HttpMetricsMiddleware(limited, metrics), access_log=access_log)
