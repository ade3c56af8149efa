"""Prometheus exposition of a registry of the process; the global registry is not used."""

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def new_registry() -> CollectorRegistry:
    """A registry with the metrics of the process: CPU, memory, open files, garbage collection."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def metrics_route(registry: CollectorRegistry) -> Route:
    """`GET /metrics`, in the format that the Accept header names."""

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": content_type})

    return Route("/metrics", metrics, methods=["GET"], include_in_schema=False)
