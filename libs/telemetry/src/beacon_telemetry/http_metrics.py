"""Counts and times HTTP requests by route template, method and status."""

from collections.abc import Callable
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.routing import Mount
from starlette.types import Scope

UNMATCHED = "unmatched"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 150, 600)


class HttpMetrics:
    """HTTP metrics: requests, durations, open connections and refused connections."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        requests = Counter(
            f"{prefix}_http_requests", "Requests", ("route", "method", "status"), registry=registry
        )
        durations = Histogram(
            f"{prefix}_http_request_duration_seconds",
            "Time from the request to the last byte of the response",
            ("route", "method"),
            buckets=_BUCKETS,
            registry=registry,
        )
        # The number of label values is bounded, so the lookups are cached without a limit.
        self._requests = cache(requests.labels)
        self._durations = cache(durations.labels)
        self._connections = Gauge(f"{prefix}_http_connections", "Connections open", registry=registry)
        self._refused = Counter(
            f"{prefix}_http_connections_refused", "Connections beyond the limit", registry=registry
        )

    def record(self, route: str, method: str, status: int, seconds: float) -> None:
        self._requests(route, method, status).inc()
        self._durations(route, method).observe(seconds)

    def count_connections(self, count: Callable[[], float]) -> None:
        """`count` is called at every scrape."""
        self._connections.set_function(count)

    def connection_refused(self) -> None:
        self._refused.inc()


def route_template(scope: Scope) -> str:
    """`/jobs/{id}` for `/jobs/17`: one of a fixed set, for any path that clients request.

    Called after the app, when the scope has the matched route. Routers must be added to a FastAPI app by
    `app.router.routes.extend(router.routes)`: the route of an included router has no prefix.
    """
    mounted = "app_root_path" in scope
    mount = scope.get("root_path", "")[len(scope["app_root_path"]) :] if mounted else ""
    route = scope.get("route")
    template: str | None = getattr(route, "path_format", None)
    if template is not None and not isinstance(route, Mount):
        return f"{mount}{template}"
    if mounted:
        return f"{mount}/*"
    # A plain Starlette route inside FastAPI names only its endpoint; without parameters that is the path.
    if "endpoint" in scope and not scope.get("path_params"):
        return str(scope["path"])
    return UNMATCHED
