"""Ids in paths and cursors of pages: the text that clients see, read back strictly."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Path, Query

from beacon_contracts.ids import JobId, decode_job_id, encode_job_id
from beacon_contracts.problem import FieldProblem
from beacon_runner.domain.admission import RefusedJobError
from beacon_runner.postgres.dead_letters import LetterPlace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

JobPath = Annotated[str, Path(examples=["job_01k9x7p4f8q2r6s0t3v5w7y9za"], max_length=80)]
ExecutionPath = Annotated[str, Path(examples=["exe_01k9x7p4f8q2r6s0t3v5w7y9za.0.3"], max_length=80)]
PageSize = Annotated[int, Query(ge=1, le=500, description="How many at most")]
Cursor = Annotated[str | None, Query(max_length=120, description="`next_cursor` of the page before")]


def read_cursor(cursor: str | None) -> JobId | None:
    """A cursor is the last id of the page before."""
    if cursor is None:
        return None
    try:
        return decode_job_id(cursor)
    except ValueError:
        raise _no_cursor() from None


def show_letter_cursor(place: LetterPlace) -> str:
    """The last letter's id and moment: the letter itself may be gone when the next page is asked for."""
    return f"{encode_job_id(place.job)}.{(place.died_at - _EPOCH) // timedelta(microseconds=1)}"


def read_letter_cursor(cursor: str | None) -> LetterPlace | None:
    if cursor is None:
        return None
    job, _, moment = cursor.partition(".")
    try:
        if not (moment.isascii() and moment.isdigit()):
            raise _no_cursor()
        return LetterPlace(_EPOCH + timedelta(microseconds=int(moment)), decode_job_id(job))
    except (ValueError, OverflowError):
        raise _no_cursor() from None


def _no_cursor() -> RefusedJobError:
    problem = FieldProblem(field="cursor", message="is not a cursor of this list", code="invalid")
    return RefusedJobError([problem])
