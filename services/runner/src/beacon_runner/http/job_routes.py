"""The routes about jobs and executions, with their documentation."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.ids import UserId, decode_execution_id, decode_job_id, encode_job_id
from beacon_contracts.jobs import (
    BatchAccepted,
    ExecutionState,
    ExecutionView,
    JobAccepted,
    JobPage,
    JobState,
    JobView,
    SkipView,
)
from beacon_contracts.model import ResponseModel
from beacon_contracts.wait_reason import WhyView
from beacon_http.replies import view_response
from beacon_runner.application.jobs import JobService
from beacon_runner.application.submissions import SubmissionService
from beacon_runner.application.wait_reason import Explainer
from beacon_runner.http.auth import ApiKeyCache, owner_of
from beacon_runner.http.cursors import Cursor, ExecutionPath, JobPath, PageSize, read_cursor
from beacon_runner.http.openapi import (
    BATCH_BODY,
    IDEMPOTENCY_HEADER,
    SUBMIT_BODY,
    batch_problems,
    problems,
)
from beacon_runner.http.scopes import locked
from beacon_runner.http.views import summary

Owner = Callable[[Request], Awaitable[UserId | None]]


class RetryAccepted(ResponseModel):
    execution: ExecutionView
    retry_attempt: int
    max_attempts: int


def owner_from(keys: ApiKeyCache) -> Owner:
    async def owner(request: Request) -> UserId | None:
        return owner_of(await keys.require(request.scope, Scope.USER))

    return owner


def submission_routes(desk: SubmissionService) -> APIRouter:
    routes = APIRouter(tags=["jobs"])

    @routes.post(
        "/api/v1/jobs",
        summary="Submit a job",
        responses={
            200: {"model": JobAccepted, "description": "The job that this Idempotency-Key made before"},
            202: {"model": JobAccepted, "description": "Stored for good; it runs when its turn comes"},
            **problems(400, 401, 403, 408, 409, 413, 422, 429, 503),
        },
        openapi_extra={"requestBody": SUBMIT_BODY, "parameters": [IDEMPOTENCY_HEADER]},
    )
    async def submit(request: Request) -> Response:
        return (await desk.submit(request.scope, request.receive)).response()

    @routes.post(
        "/api/v1/jobs/batch",
        summary="Submit many jobs in one transaction: all of them, or none",
        responses={
            200: {"model": BatchAccepted, "description": "The batch that this Idempotency-Key made before"},
            202: {"model": BatchAccepted, "description": "All are stored"},
            **batch_problems(400, 401, 403, 408, 409, 413, 422, 429, 503),
        },
        openapi_extra={"requestBody": BATCH_BODY, "parameters": [IDEMPOTENCY_HEADER]},
    )
    async def submit_batch(request: Request) -> Response:
        return (await desk.submit_batch(request.scope, request.receive)).response()

    return routes


def job_routes(jobs: JobService, explainer: Explainer, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(tags=["jobs"], route_class=locked(keys, Scope.USER))
    owner = owner_from(keys)

    @routes.get("/api/v1/jobs", responses={200: {"model": JobPage}, **problems(401, 403, 422, 503)})
    async def list_jobs(
        request: Request,
        *,
        status: Annotated[list[JobState] | None, Query()] = None,
        kind: Annotated[Literal["matrix", "pipeline", "generation"] | None, Query()] = None,
        limit: PageSize = 50,
        cursor: Cursor = None,
        everybody: Annotated[bool, Query(description="All users' jobs; needs an admin key")] = False,
    ) -> Response:
        """Your jobs, newest first."""
        principal = await keys.require(request.scope, Scope.ADMIN if everybody else Scope.USER)
        found = await jobs.reader.page(
            None if everybody else principal.user,
            after=read_cursor(cursor),
            states=status,
            kind=kind,
            limit=limit + 1,
        )
        following = encode_job_id(found[limit - 1].id) if len(found) > limit else None
        return view_response(JobPage(jobs=[summary(head) for head in found[:limit]], next_cursor=following))

    @routes.get(
        "/api/v1/jobs/{job_id}", responses={200: {"model": JobView}, **problems(401, 403, 404, 422, 503)}
    )
    async def get_job(request: Request, job_id: JobPath) -> Response:
        """One job with its executions, progress, position and estimated wait."""
        return view_response(await jobs.view(decode_job_id(job_id), await owner(request)))

    @routes.get(
        "/api/v1/jobs/{job_id}/why", responses={200: {"model": WhyView}, **problems(401, 403, 404, 422, 503)}
    )
    async def why(request: Request, job_id: JobPath) -> Response:
        """What the job waits for now."""
        record = await jobs.record(decode_job_id(job_id), await owner(request))
        return view_response(await explainer.why(record))

    @routes.post(
        "/api/v1/jobs/{job_id}/cancel",
        responses={200: {"model": JobView}, **problems(401, 403, 404, 409, 422, 503)},
    )
    async def cancel(request: Request, job_id: JobPath) -> Response:
        """End it, queued or running. It stays readable; results that come late are discarded."""
        job, asking = decode_job_id(job_id), await owner(request)
        await jobs.cancel(job, asking)
        return view_response(await jobs.view(job, asking))

    @routes.post(
        "/api/v1/jobs/{job_id}/resume",
        responses={202: {"model": JobView}, **problems(400, 401, 403, 404, 409, 422, 503)},
    )
    async def resume(request: Request, job_id: JobPath) -> Response:
        """Go on from the failed stage; what has completed is kept."""
        job, asking = decode_job_id(job_id), await owner(request)
        await jobs.resume(job, asking)
        return view_response(await jobs.view(job, asking), 202)

    @routes.post(
        "/api/v1/jobs/{job_id}/skip",
        responses={200: {"model": SkipView}, **problems(401, 402, 403, 404, 409, 422, 503)},
    )
    async def skip(request: Request, job_id: JobPath) -> Response:
        """Pay to go first, here and on the GPUs; comes back by itself when nothing of the job ever runs."""
        job, principal = decode_job_id(job_id), await keys.require(request.scope, Scope.USER)
        return view_response(await jobs.skip(job, owner_of(principal), principal.user))

    return routes


def execution_routes(jobs: JobService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(tags=["executions"], route_class=locked(keys, Scope.USER))
    owner = owner_from(keys)

    @routes.get(
        "/api/v1/executions/{execution_id}",
        responses={200: {"model": ExecutionView}, **problems(401, 403, 404, 422, 503)},
    )
    async def get_execution(request: Request, execution_id: ExecutionPath) -> Response:
        """One execution with all its attempts."""
        job, stage, ordinal = decode_execution_id(execution_id)
        return view_response(await jobs.execution(job, stage, ordinal, await owner(request)))

    @routes.post(
        "/api/v1/executions/{execution_id}/retry-question",
        responses={
            200: {"model": RetryAccepted, "description": "It has completed; here is the result"},
            202: {"model": RetryAccepted, "description": "It runs again, or is in flight already"},
            **problems(400, 401, 403, 404, 409, 422, 429, 503),
        },
    )
    async def retry_question(request: Request, execution_id: ExecutionPath) -> Response:
        """Run one failed execution again; never a second time at once."""
        (job, stage, ordinal), asking = decode_execution_id(execution_id), await owner(request)
        retried = await jobs.retry(job, stage, ordinal, asking)
        view = RetryAccepted(
            execution=await jobs.execution(job, stage, ordinal, asking),
            retry_attempt=retried.retry_attempt,
            max_attempts=retried.max_attempts,
        )
        return view_response(view, 200 if retried.state is ExecutionState.COMPLETED else 202)

    return routes
