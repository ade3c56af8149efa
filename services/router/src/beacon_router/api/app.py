"""The ASGI application: routes, errors, request ids and metrics."""

from collections.abc import Iterable

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from beacon_contracts.problem import FieldProblem
from beacon_router.api.documents import document_api
from beacon_router.api.problems import (
    HttpProblemError,
    on_crash,
    on_dispatch_error,
    on_http_exception,
    on_problem,
    problem_response,
)
from beacon_router.dispatch.errors import DispatchError
from beacon_telemetry import HttpMetricsMiddleware, RequestContextMiddleware


def create_app(routers: Iterable[APIRouter], *, registry: CollectorRegistry, access_log: bool) -> ASGIApp:
    app = FastAPI(
        title="Beacon router",
        version="0.1.0",
        description="Decides, each time a GPU slot frees, which single inference runs there next.",
        redoc_url=None,
    )
    for router in routers:
        app.include_router(router)
    app.add_exception_handler(HttpProblemError, on_problem)
    app.add_exception_handler(DispatchError, on_dispatch_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_parameter)
    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(Exception, on_crash)
    document_api(app)
    measured = HttpMetricsMiddleware(app, registry=registry, prefix="beacon_router")
    return RequestContextMiddleware(measured, access_log=access_log)


async def _on_invalid_parameter(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    fields = [
        FieldProblem(
            field=".".join(str(part) for part in item["loc"]), message=item["msg"], code=item["type"]
        )
        for item in error.errors()
    ]
    first = fields[0]
    problem = HttpProblemError(422, "invalid_field", f"{first.field}: {first.message}", errors=fields)
    return problem_response(problem.problem)
