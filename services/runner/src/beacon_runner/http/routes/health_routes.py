"""Liveness, readiness and metrics, for orchestrators and load balancers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from fastapi import APIRouter
from prometheus_client import CollectorRegistry
from pydantic import Field
from starlette.responses import Response

from beacon_contracts.model import ResponseModel
from beacon_http.replies import view_response
from beacon_runner.domain.errors import QueueUnavailableError, StoreOutdatedError, StoreUnavailableError
from beacon_runner.http.openapi import NO_KEY
from beacon_telemetry import metrics_route

log = structlog.get_logger(__name__)


class Liveness(ResponseModel):
    status: str


class Readiness(ResponseModel):
    """Each part with `ok` or its problem; `at` is the server's time, for comparing clocks."""

    ready: bool
    parts: dict[str, str]
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class ReadinessCheck:
    version: Callable[[], Awaitable[str | None]]
    head: str
    ping_queue: Callable[[], Awaitable[None]]

    async def check(self) -> Readiness:
        parts = {**await self._database(), "redis": await self._redis()}
        return Readiness(ready=set(parts.values()) == {"ok"}, parts=parts)

    async def _database(self) -> dict[str, str]:
        try:
            version = await self.version()
        except StoreOutdatedError:
            return {"postgres": "ok", "migrations": "never run: `beacon-runner migrate`"}
        except StoreUnavailableError as error:
            return {"postgres": f"does not answer: {error}", "migrations": "unknown"}
        except Exception as error:  # noqa: BLE001 - with any error this process is not ready
            log.warning("readiness_check_failed", error=repr(error))
            return {"postgres": "ok", "migrations": f"cannot be read: {error}"}
        return {"postgres": "ok", "migrations": self._fits(version)}

    def _fits(self, version: str | None) -> str:
        if version == self.head:
            return "ok"
        behind = version is None or version < self.head
        return f"at {version}, this needs {self.head}" + (": `beacon-runner migrate`" if behind else "")

    async def _redis(self) -> str:
        try:
            await self.ping_queue()
        except QueueUnavailableError as error:
            return f"does not answer: {error}"
        return "ok"


def health_routes(check: ReadinessCheck, registry: CollectorRegistry) -> APIRouter:
    routes = APIRouter(tags=["health"])

    @routes.get(
        "/healthz", operation_id="get_health", responses={200: {"model": Liveness}}, openapi_extra=NO_KEY
    )
    async def get_health() -> Response:
        """The process is alive and its event loop responds."""
        return view_response(Liveness(status="ok"))

    @routes.get(
        "/readyz",
        operation_id="get_readiness",
        responses={200: {"model": Readiness}, 503: {"model": Readiness}},
        openapi_extra=NO_KEY,
    )
    async def get_readiness() -> Response:
        """Postgres and Redis answer, and the database schema has the version that this code needs."""
        readiness = await check.check()
        return view_response(readiness, 200 if readiness.ready else 503)

    routes.routes.append(metrics_route(registry))
    return routes
