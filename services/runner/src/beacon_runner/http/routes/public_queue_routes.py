"""The state of the queue, for clients without a key."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.public_queue import PublicQueue, QueueEntries, RunnerStatus
from beacon_http.replies import view_response
from beacon_runner.application.public_queue import PublicQueueService
from beacon_runner.http.auth import ApiKeyCache, has_key
from beacon_runner.http.openapi import NO_KEY, problems
from beacon_runner.http.route import StrictRoute


def public_queue_routes(service: PublicQueueService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(tags=["queue"], route_class=StrictRoute)

    @routes.get(
        "/queue-status", responses={200: {"model": PublicQueue}, **problems(503)}, openapi_extra=NO_KEY
    )
    async def get_queue_status() -> Response:
        """The length of the queue and its first jobs."""
        return view_response(await service.queue_status())

    @routes.get("/api/queue", responses={200: {"model": QueueEntries}, **problems(503)}, openapi_extra=NO_KEY)
    async def explore_queue(request: Request) -> Response:
        """The queue in the order of service. With a key, the user's own jobs have `mine` and `name`."""
        viewer = await keys.require(request.scope, Scope.USER) if has_key(request.scope) else None
        return view_response(await service.entries(viewer))

    @routes.get("/status", responses={200: {"model": RunnerStatus}, **problems(503)}, openapi_extra=NO_KEY)
    async def get_status() -> Response:
        """The scheduler, and the wait of a new job for each model."""
        return view_response(await service.status())

    return routes
