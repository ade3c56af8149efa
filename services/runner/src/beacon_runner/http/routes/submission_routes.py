"""Routes that submit jobs."""

from typing import Any

import orjson
from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.ids import JobId, encode_job_id
from beacon_contracts.jobs import (
    BatchAccepted,
    BatchSubmission,
    GenerationJob,
    JobAccepted,
    JobView,
    job_submission,
)
from beacon_contracts.public_queue import Generate
from beacon_http.problems import HttpProblemError
from beacon_http.replies import view_response
from beacon_runner.application.events import JobEventService
from beacon_runner.application.submissions import AcceptedJob, SubmissionService
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.events.user_streams import UserStreams
from beacon_runner.http.openapi import (
    BATCH_BODY,
    IDEMPOTENCY_HEADER,
    PREFER_HEADER,
    SUBMIT_BODY,
    batch_problems,
    problems,
)
from beacon_runner.http.views import (
    job_view,
    links_of,
)

MAX_KEY_LENGTH = 200
MAX_PREFERRED_WAIT_S = 60

_batch_submission: TypeAdapter[BatchSubmission] = TypeAdapter(BatchSubmission)


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
