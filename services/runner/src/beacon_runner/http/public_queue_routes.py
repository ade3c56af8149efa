"""The routes that earlier clients know: generate, and the queue at a glance."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.jobs import GenerationJob, JobAccepted
from beacon_contracts.public_queue import Generate, PublicQueue, QueueExplorer, RunnerStatus
from beacon_http.replies import view_response
from beacon_runner.application.public_queue import Explorer
from beacon_runner.application.submissions import SubmissionService, idempotency_key
from beacon_runner.http.auth import ApiKeyCache, owner_of
from beacon_runner.http.openapi import IDEMPOTENCY_HEADER, OPEN, problems
from beacon_runner.http.scopes import locked


def explorer_routes(explorer: Explorer, desk: SubmissionService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(tags=["queue"], route_class=locked(keys, Scope.USER))
    everybody = APIRouter(tags=["queue"])

    @routes.post(
        "/generate",
        responses={
            200: {"model": JobAccepted, "description": "The job that this Idempotency-Key made before"},
            202: {"model": JobAccepted, "description": "Stored for good; it runs when its turn comes"},
            **problems(400, 401, 403, 408, 409, 413, 422, 429, 503),
        },
        openapi_extra={"parameters": [IDEMPOTENCY_HEADER]},
    )
    async def generate(request: Request, wanted: Generate) -> Response:
        """One model, one prompt: the short form of a job of kind `generation`."""
        principal = await keys.require(request.scope, Scope.USER)
        job = GenerationJob(kind="generation", **wanted.model_dump())
        return (await desk.take(principal, job, idempotency_key(request.scope))).response()

    @everybody.get(
        "/queue-status", responses={200: {"model": PublicQueue}, **problems(503)}, openapi_extra=OPEN
    )
    async def queue_status() -> Response:
        """How long the queue is, and what is in it, for everybody."""
        return view_response(await explorer.public())

    @routes.get("/api/queue", responses={200: {"model": QueueExplorer}, **problems(401, 403, 503)})
    async def queue(request: Request) -> Response:
        """The queue in the order of service; of others' jobs only what helps to understand one's own wait."""
        principal = await keys.require(request.scope, Scope.USER)
        return view_response(await explorer.explore(owner_of(principal)))

    @everybody.get("/status", responses={200: {"model": RunnerStatus}, **problems(503)}, openapi_extra=OPEN)
    async def status() -> Response:
        """The scheduler, and what a new job would wait for each model."""
        return view_response(await explorer.status())

    routes.include_router(everybody)
    return routes
