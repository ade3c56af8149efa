"""Routes of jobs and executions."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.ids import UserId, decode_execution_id, decode_job_id, encode_job_id
from beacon_contracts.jobs import (
    ExecutionPage,
    ExecutionState,
    ExecutionView,
    JobPage,
    JobView,
    SkipView,
)
from beacon_contracts.model import ResponseModel
from beacon_contracts.wait_reason import WhyView
from beacon_http.replies import view_response
from beacon_runner.application.jobs import JobService
from beacon_runner.application.wait_reason import WaitReasonService
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.cursors import (
    Cursor,
    ExecutionPath,
    JobPath,
    PageSize,
    UserFilter,
    read_cursor,
    read_execution_cursor,
    read_user,
)
from beacon_runner.http.job_filters import (
    CreatedAfter,
    CreatedBefore,
    KindFilter,
    MetadataFilter,
    ModelFilter,
    NameFilter,
    States,
    TagFilter,
    read_filter,
)
from beacon_runner.http.openapi import (
    problems,
)
from beacon_runner.http.views import (
    execution_page,
    execution_view,
    job_summary,
    job_view,
    skip_view,
)

WithOutputs = Annotated[bool, Query(description="False leaves out outputs and responses")]


class RetryAccepted(ResponseModel):
    execution: ExecutionView
    retry_attempt: int
    max_attempts: int


def job_routes(jobs: JobService, reasons: WaitReasonService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(tags=["jobs"], route_class=require_scope(keys, Scope.USER))

    @routes.get("/api/v1/jobs", responses={200: {"model": JobPage}, **problems(401, 403, 422, 503)})
    async def list_jobs(
        request: Request,
        *,
        status: States = None,
        kind: KindFilter = None,
        model: ModelFilter = None,
        tag: TagFilter = None,
        metadata: MetadataFilter = None,
        name: NameFilter = None,
        created_after: CreatedAfter = None,
        created_before: CreatedBefore = None,
        limit: PageSize = 50,
        cursor: Cursor = None,
        all_users: Annotated[bool, Query(description="All users' jobs; needs an admin key")] = False,
        user: UserFilter = None,
    ) -> Response:
        """Your jobs that match all filters, newest first."""
        owner: UserId | None = principal_of(request).user
        if all_users or user is not None:
            await keys.require(request.scope, Scope.ADMIN)
            owner = None if user is None else read_user(user)
        wanted = read_filter(
            owner,
            metadata,
            status=status,
            kind=kind,
            model=model,
            tag=tag,
            name=name,
            created_after=created_after,
            created_before=created_before,
        )
        found = await jobs.queries.page(wanted, after=read_cursor(cursor), limit=limit)
        next_cursor = None if found.next is None else encode_job_id(found.next)
        return view_response(JobPage(jobs=list(map(job_summary, found.jobs)), next_cursor=next_cursor))

    @routes.get(
        "/api/v1/jobs/{job_id}", responses={200: {"model": JobView}, **problems(401, 403, 404, 422, 503)}
    )
    async def get_job(request: Request, job_id: JobPath, *, outputs: WithOutputs = True) -> Response:
        """One job with its first 200 executions, progress, position and estimated wait."""
        details = await jobs.details(decode_job_id(job_id), principal_of(request).owner, outputs=outputs)
        return view_response(job_view(details))

    @routes.get(
        "/api/v1/jobs/{job_id}/executions",
        responses={200: {"model": ExecutionPage}, **problems(401, 403, 404, 422, 503)},
    )
    async def list_executions(
        request: Request,
        job_id: JobPath,
        *,
        limit: PageSize = 200,
        cursor: Cursor = None,
        outputs: WithOutputs = True,
    ) -> Response:
        """All executions of a job in the order of stages, questions, models and regions."""
        job = decode_job_id(job_id)
        found = await jobs.executions(
            job,
            principal_of(request).owner,
            after=read_execution_cursor(cursor, job),
            limit=limit,
            outputs=outputs,
        )
        return view_response(execution_page(found))

    @routes.get(
        "/api/v1/jobs/{job_id}/why", responses={200: {"model": WhyView}, **problems(401, 403, 404, 422, 503)}
    )
    async def get_wait_reason(request: Request, job_id: JobPath) -> Response:
        """What the job waits for now."""
        return view_response(await reasons.why(decode_job_id(job_id), principal_of(request).owner))

    @routes.post(
        "/api/v1/jobs/{job_id}/cancel",
        responses={200: {"model": JobView}, **problems(401, 403, 404, 409, 422, 503)},
    )
    async def cancel_job(request: Request, job_id: JobPath) -> Response:
        """End a queued or running job. It stays readable; results that arrive later are discarded."""
        job, owner = decode_job_id(job_id), principal_of(request).owner
        await jobs.cancel(job, owner, by=principal_of(request).actor)
        return view_response(job_view(await jobs.details(job, owner)))

    @routes.post(
        "/api/v1/jobs/{job_id}/resume",
        status_code=202,
        responses={202: {"model": JobView}, **problems(400, 401, 403, 404, 409, 422, 503)},
    )
    async def resume_job(request: Request, job_id: JobPath) -> Response:
        """Continue from the failed stage; completed executions are kept."""
        job, owner = decode_job_id(job_id), principal_of(request).owner
        await jobs.resume(job, owner, by=principal_of(request).actor)
        return view_response(job_view(await jobs.details(job, owner)), 202)

    @routes.post(
        "/api/v1/jobs/{job_id}/skip",
        responses={200: {"model": SkipView}, **problems(401, 402, 403, 404, 409, 422, 503)},
    )
    async def skip_job(request: Request, job_id: JobPath) -> Response:
        """Pay to be served first, here and on the GPUs; refunded automatically if nothing of the job runs."""
        principal = principal_of(request)
        skipped = await jobs.skip(decode_job_id(job_id), principal.owner, principal.user, by=principal.actor)
        return view_response(skip_view(skipped))

    return routes


def execution_routes(jobs: JobService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(tags=["jobs"], route_class=require_scope(keys, Scope.USER))

    @routes.get(
        "/api/v1/executions/{execution_id}",
        responses={200: {"model": ExecutionView}, **problems(401, 403, 404, 422, 503)},
    )
    async def get_execution(request: Request, execution_id: ExecutionPath) -> Response:
        """One execution with all its attempts."""
        job, stage, ordinal = decode_execution_id(execution_id)
        details = await jobs.execution(job, stage, ordinal, principal_of(request).owner)
        return view_response(execution_view(details.job, details.key, details.recorded, details.earlier))

    @routes.post(
        "/api/v1/executions/{execution_id}/retry-question",
        status_code=202,
        responses={
            200: {"model": RetryAccepted, "description": "It has completed; the result is included"},
            202: {"model": RetryAccepted, "description": "It runs again, or is in flight already"},
            **problems(400, 401, 403, 404, 409, 422, 429, 503),
        },
    )
    async def retry_execution(request: Request, execution_id: ExecutionPath) -> Response:
        """Run one failed execution again; never twice at the same time."""
        (job, stage, ordinal), owner = decode_execution_id(execution_id), principal_of(request).owner
        decision = await jobs.retry(job, stage, ordinal, owner, by=principal_of(request).actor)
        details = await jobs.execution(job, stage, ordinal, owner)
        view = RetryAccepted(
            execution=execution_view(details.job, details.key, details.recorded, details.earlier),
            retry_attempt=decision.retry_attempt,
            max_attempts=decision.max_attempts,
        )
        return view_response(view, 200 if decision.state is ExecutionState.COMPLETED else 202)

    return routes
