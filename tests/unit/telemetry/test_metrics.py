"""Metrics: exposition of an own registry, and HTTP figures by route template with bounded labels."""

import httpx
import pytest
from fastapi import APIRouter, FastAPI, HTTPException
from prometheus_client import REGISTRY, CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from beacon_telemetry import (
    HttpMetrics,
    TelemetryMiddleware,
    metrics_route,
    new_registry,
)


async def call(app: ASGIApp, *paths: str, method: str = "GET") -> list[int]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return [(await client.request(method, path)).status_code for path in paths]


def requests_seen(registry: CollectorRegistry) -> dict[tuple[str, str, str], float]:
    return {
        (sample.labels["route"], sample.labels["method"], sample.labels["status"]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "beacon_http_requests_total"
    }


def fastapi_app() -> FastAPI:
    app, jobs = FastAPI(), APIRouter(prefix="/api/v1/jobs")

    @jobs.get("/{job_id}")
    async def job(job_id: int) -> int:
        if job_id == 404:
            raise HTTPException(404)
        return job_id

    @app.get("/boom")
    async def boom() -> None:
        raise ConnectionError

    app.router.routes.extend(jobs.routes)
    return app


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def watched(app: ASGIApp, registry: CollectorRegistry) -> TelemetryMiddleware:
    return TelemetryMiddleware(app, HttpMetrics(registry, "beacon"), access_log=False)


async def test_requests_are_counted_by_template_with_the_routers_prefix(registry: CollectorRegistry) -> None:
    app = watched(fastapi_app(), registry)
    assert await call(app, "/api/v1/jobs/1", "/api/v1/jobs/2", "/api/v1/jobs/404", "/api/v1/jobs/x") == [
        200,
        200,
        404,
        422,
    ]
    template = "/api/v1/jobs/{job_id}"
    assert requests_seen(registry) == {
        (template, "GET", "200"): 2,
        (template, "GET", "404"): 1,
        (template, "GET", "422"): 1,
    }


async def test_unknown_paths_and_methods_add_no_time_series(registry: CollectorRegistry) -> None:
    app = watched(fastapi_app(), registry)
    await call(app, *(f"/wp-admin/{number}.php" for number in range(50)))
    await call(app, *(f"/x/{number}" for number in range(5)), method="BREW")
    assert set(requests_seen(registry)) == {("unmatched", "GET", "404"), ("unmatched", "OTHER", "404")}


async def test_an_app_that_raises_counts_as_500(registry: CollectorRegistry) -> None:
    await call(watched(fastapi_app(), registry), "/boom")
    assert requests_seen(registry) == {("/boom", "GET", "500"): 1}


async def test_mounts_and_plain_routes_have_templates_too(registry: CollectorRegistry) -> None:
    async def files(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("file")(scope, receive, send)

    async def hello(_request: Request) -> Response:
        return PlainTextResponse("hello")

    inner = Starlette(routes=[Route("/item/{id}", hello)])
    routes = [Route("/hello/{name}", hello), Mount("/sub", inner), Mount("/static", files)]
    app = watched(Starlette(routes=routes), registry)
    await call(app, "/hello/ann", "/hello/bob", "/sub/item/1", "/sub/item/2", "/static/a.js", "/static/b.js")
    assert {route for route, _, _ in requests_seen(registry)} == {
        "/hello/{name}",
        "/sub/item/{id}",
        "/static/*",
    }


async def test_mounts_and_plain_routes_inside_fastapi(registry: CollectorRegistry) -> None:
    async def files(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("file")(scope, receive, send)

    app = fastapi_app()
    app.router.routes.append(metrics_route(CollectorRegistry()))
    app.mount("/sub", fastapi_app())
    app.mount("/", files)
    await call(watched(app, registry), "/metrics", "/sub/api/v1/jobs/7", "/portal.js", "/any/thing", "/boom")
    assert {route for route, _, _ in requests_seen(registry)} == {
        "/metrics",
        "/sub/api/v1/jobs/{job_id}",
        "/*",
        "/boom",
    }


async def test_durations_are_kept_per_route(registry: CollectorRegistry) -> None:
    await call(watched(fastapi_app(), registry), "/api/v1/jobs/1", "/api/v1/jobs/2")
    labels = {"route": "/api/v1/jobs/{job_id}", "method": "GET"}
    assert registry.get_sample_value("beacon_http_request_duration_seconds_count", labels) == 2


async def test_the_endpoint_shows_the_registry_and_only_that() -> None:
    registry = new_registry()
    Counter("beacon_jobs", "Jobs", registry=registry).inc(3)
    app = Starlette(routes=[metrics_route(registry)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        plain = await client.get("/metrics")
        open_metrics = await client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert plain.headers["content-type"].startswith("text/plain")
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
    names = {family.name for family in text_string_to_metric_families(plain.text)}
    assert "beacon_jobs" in names
    assert "process_cpu_seconds" in names
    assert "beacon_jobs" not in {family.name for family in REGISTRY.collect()}
