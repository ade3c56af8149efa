"""Ids in paths and cursors of pages: the text that clients see, read back strictly."""

from typing import Annotated

from fastapi import Path, Query

from beacon_contracts.ids import JobId, read_job
from beacon_contracts.problem import FieldProblem
from beacon_runner.domain.admission import RefusedJobError

JobPath = Annotated[str, Path(examples=["job_01k9x7p4f8q2r6s0t3v5w7y9za"], max_length=80)]
ExecutionPath = Annotated[str, Path(examples=["exe_01k9x7p4f8q2r6s0t3v5w7y9za.0.3"], max_length=80)]
PageSize = Annotated[int, Query(ge=1, le=500, description="How many at most")]
Cursor = Annotated[str | None, Query(max_length=120, description="`next_cursor` of the page before")]


def read_cursor(cursor: str | None) -> JobId | None:
    """A cursor is the last id of the page before."""
    if cursor is None:
        return None
    try:
        return read_job(cursor)
    except ValueError:
        problem = FieldProblem(field="cursor", message="is not a cursor of this list", code="invalid")
        raise RefusedJobError([problem]) from None
