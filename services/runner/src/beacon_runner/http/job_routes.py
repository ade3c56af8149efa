"""Routes of jobs and executions."""

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.ids import JobId, UserId, decode_execution_id, decode_job_id, encode_job_id
from beacon_contracts.jobs import (
    BatchAccepted,
    BatchSubmission,
    ExecutionPage,
    ExecutionState,
    ExecutionView,
    GenerationJob,
    JobAccepted,
    JobPage,
    JobView,
    SkipView,
    job_submission,
)
from beacon_contracts.model import ResponseModel
from beacon_contracts.public_queue import Generate
from beacon_contracts.wait_reason import WhyView
from beacon_http.problems import HttpProblemError
from beacon_http.replies import view_response
from beacon_runner.application.events import JobEventService
from beacon_runner.application.jobs import JobService
from beacon_runner.application.submissions import AcceptedJob, SubmissionService
from beacon_runner.application.wait_reason import WaitReasonService
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.domain.users import Principal
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
from beacon_runner.http.events.user_streams import UserStreams
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
    BATCH_BODY,
    IDEMPOTENCY_HEADER,
    PREFER_HEADER,
    SUBMIT_BODY,
    batch_problems,
    problems,
)
from beacon_runner.http.views import (
    execution_page,
    execution_view,
    job_summary,
    job_view,
    links_of,
    skip_view,
)

MAX_KEY_LENGTH = 200
MAX_PREFERRED_WAIT_S = 60
WithOutputs = Annotated[bool, Query(description="False leaves out outputs and responses")]

_batch_submission: TypeAdapter[BatchSubmission] = TypeAdapter(BatchSubmission)


class RetryAccepted(ResponseModel):
    execution: ExecutionView
    retry_attempt: int
    max_attempts: int


def submission_routes(
    service: SubmissionService, events: JobEventService, streams: UserStreams, keys: ApiKeyCache
) -> APIRouter:
    routes = APIRouter(tags=["jobs"], route_class=require_scope(keys, Scope.USER))

    @routes.post(
        "/api/v1/jobs",
        summary="Submit a job",
        status_code=202,
        responses={
            200: {
                "model": JobAccepted | JobView,
                "description": "Stored by an earlier request with this key; or, with `Prefer`, the ended job",
            },
            202: {"model": JobAccepted, "description": "Stored durably"},
            **problems(400, 401, 403, 408, 409, 413, 422, 429, 503),
        },
        openapi_extra={"requestBody": SUBMIT_BODY, "parameters": [IDEMPOTENCY_HEADER, PREFER_HEADER]},
    )
    async def submit_job(request: Request) -> Response:
        wait_s = preferred_wait_s(request) if "prefer" in request.headers else None
        submission = job_submission.validate_json(await request.body())
        key = _idempotency_key(request)
        principal = principal_of(request)
        accepted = await service.submit(principal, [submission], key, batch=False)
        if wait_s is not None:
            job = accepted[0].job.id
            if await _ends_within(events, streams, principal, job, wait_s):
                ended = job_view(await events.jobs.details(job, principal.owner))
                return _applied(view_response(ended), wait_s)
            return _applied(_accepted_response(accepted, batch=False), wait_s)
        return _accepted_response(accepted, batch=False)

    @routes.post(
        "/api/v1/jobs/batch",
        summary="Submit many jobs in one transaction: all of them, or none",
        status_code=202,
        responses={
            200: {"model": BatchAccepted, "description": "Stored by an earlier request with this key"},
            202: {"model": BatchAccepted, "description": "All are stored durably"},
            **batch_problems(400, 401, 403, 408, 409, 413, 422, 429, 503),
        },
        openapi_extra={"requestBody": BATCH_BODY, "parameters": [IDEMPOTENCY_HEADER]},
    )
    async def submit_batch(request: Request) -> Response:
        submissions = _batch_submission.validate_json(await request.body()).jobs
        key = _idempotency_key(request)
        accepted = await service.submit(principal_of(request), submissions, key, batch=True)
        return _accepted_response(accepted, batch=True)

    @routes.post(
        "/generate",
        status_code=202,
        responses={
            200: {
                "model": JobAccepted,
                "description": "Stored by an earlier request with this key",
            },
            202: {"model": JobAccepted, "description": "Stored durably"},
            **problems(400, 401, 403, 408, 409, 413, 422, 429, 503),
        },
        openapi_extra={"parameters": [IDEMPOTENCY_HEADER]},
    )
    async def generate(request: Request, wanted: Generate) -> Response:
        """One model, one prompt: the short form of a job of kind `generation`."""
        submission = GenerationJob(kind="generation", **wanted.model_dump())
        key = _idempotency_key(request)
        accepted = await service.submit(principal_of(request), [submission], key, batch=False)
        return _accepted_response(accepted, batch=False)

    return routes


async def _ends_within(
    events: JobEventService, streams: UserStreams, principal: Principal, job: JobId, wait_s: int
) -> bool:
    """The request counts as a stream of its user; without a free one it does not wait."""
    try:
        async with streams.stream(principal):
            return await events.ended_within(job, principal.owner, wait_s)
    except HttpProblemError:
        return False


def _applied(response: Response, wait_s: int) -> Response:
    response.headers["preference-applied"] = f"wait={wait_s}"
    return response


def preferred_wait_s(request: Request) -> int | None:
    """The seconds of `Prefer: wait=N` (RFC 7240), up to a maximum; other preferences are ignored."""
    for preference in request.headers.get("prefer", "").split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            seconds = value.strip().strip('"')
            if not (seconds.isascii() and seconds.isdigit() and len(seconds) < 10):
                raise InvalidFieldsError.of("Prefer", "wait must be a whole number of seconds")
            return min(int(seconds), MAX_PREFERRED_WAIT_S)
    return None


def _accepted_response(accepted: list[AcceptedJob], *, batch: bool) -> Response:
    """Without pydantic models, because batches are large. 200 when an earlier request stored the jobs."""
    documents: list[dict[str, Any]] = []
    for one in accepted:
        job_id = encode_job_id(one.job.id)
        documents.append(
            {
                "job_id": job_id,
                "status": one.job.state,
                "tier": one.job.tier,
                "priority": one.job.job_class,
                "position": one.estimate.position,
                "estimated_wait_s": one.estimate.wait_s,
                "no_estimate_reason": one.estimate.reason,
                "links": links_of(job_id),
            }
        )
    status = 202 if accepted[0].job.created else 200
    if batch:
        return Response(orjson.dumps({"jobs": documents}), status, media_type="application/json")
    location = {"location": documents[0]["links"]["self"]}
    return Response(orjson.dumps(documents[0]), status, location, "application/json")


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 0 < len(key) <= MAX_KEY_LENGTH or not key.isascii() or not key.isprintable():
        raise InvalidFieldsError.of("Idempotency-Key", f"must be 1 to {MAX_KEY_LENGTH} printable characters")
    return key


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
