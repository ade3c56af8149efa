"""Jobs as callers give them, validated before they are sent."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from pydantic import ValidationError

from beacon_client.errors import BeaconError
from beacon_contracts.jobs import GenerationJob, MatrixJob, PipelineJob, job_submission
from beacon_contracts.problem import FieldProblem, Problem

Job = MatrixJob | PipelineJob | GenerationJob
Submission = Job | Mapping[str, Any]


def as_submission(job: Submission) -> Job:
    """The typed job; raises the error that the runner would respond with."""
    if isinstance(job, Job):
        return job
    try:
        return job_submission.validate_python(dict(job))
    except ValidationError as error:
        raise BeaconError(_problem(error)) from error


def new_idempotency_key() -> str:
    """A random key: repeating a submission with it returns the stored job."""
    return uuid4().hex


def _problem(error: ValidationError) -> Problem:
    errors = [
        FieldProblem(field=_field(wrong["loc"]), message=wrong["msg"], code=wrong["type"])
        for wrong in error.errors(include_url=False)
    ]
    return Problem(
        title="Invalid job", status=422, code="invalid_job", detail="The job is not valid.", errors=errors
    )


def _field(places: tuple[int | str, ...]) -> str:
    """`questions[0].prompt`, without the kind that the union adds as prefix."""
    text = ""
    for place in places[1:] or places:
        text += f"[{place}]" if isinstance(place, int) else f".{place}" if text else place
    return text or "kind"
