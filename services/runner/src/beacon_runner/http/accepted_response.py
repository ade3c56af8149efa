"""The response to a submission, in the form of `JobAccepted`."""

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.ids import encode_job_id
from beacon_runner.application.submissions import AcceptedJob
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.http.views import links_of

MAX_KEY_LENGTH = 200


def accepted_response(accepted: list[AcceptedJob], *, batch: bool) -> Response:
    """Without pydantic models, because batches are large. 200 when an earlier request stored the jobs."""
    documents = [_document(one) for one in accepted]
    status = 202 if accepted[0].job.created else 200
    if batch:
        return Response(orjson.dumps({"jobs": documents}), status, media_type="application/json")
    location = {"location": documents[0]["links"]["self"]}
    return Response(orjson.dumps(documents[0]), status, location, "application/json")


def _document(accepted: AcceptedJob) -> dict[str, Any]:
    job = accepted.job
    job_id = encode_job_id(job.id)
    return {
        "job_id": job_id,
        "status": job.state,
        "tier": job.tier,
        "priority": job.job_class,
        "position": accepted.position,
        "estimated_wait_s": accepted.estimated_wait_s,
        "links": links_of(job_id),
    }


def idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 0 < len(key) <= MAX_KEY_LENGTH or not key.isascii() or not key.isprintable():
        raise InvalidFieldsError.of("Idempotency-Key", f"must be 1 to {MAX_KEY_LENGTH} printable characters")
    return key
