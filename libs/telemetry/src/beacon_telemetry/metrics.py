"""Prometheus exposition of a registry that the process owns; nothing uses the global one."""

from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def new_registry() -> CollectorRegistry:
    """A registry that already has the process's own figures: CPU, memory, open files, garbage collection."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def metrics_endpoint(registry: CollectorRegistry) -> Callable[[Request], Awaitable[Response]]:
    """A Starlette or FastAPI endpoint that answers with the registry's text, in the format asked for."""

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": content_type})

    return metrics


def metrics_route(registry: CollectorRegistry, path: str = "/metrics") -> Route:
    return Route(path, metrics_endpoint(registry), methods=["GET"], include_in_schema=False)
