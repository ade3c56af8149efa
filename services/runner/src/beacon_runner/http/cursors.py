"""Ids in paths, page sizes and cursors."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Path, Query

from beacon_contracts.ids import (
    AUDIT,
    DELIVERY,
    FILE,
    USER,
    AuditId,
    DeliveryId,
    FileId,
    JobId,
    UserId,
    decode_execution_id,
    decode_id,
    decode_job_id,
    encode_job_id,
)
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.domain.jobs.dead_letters import DeadLetterCursor
from beacon_runner.domain.jobs.records import ExecutionPlace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

JobPath = Annotated[str, Path(examples=["job_01k9x7p4f8q2r6s0t3v5w7y9za"], max_length=80)]
ExecutionPath = Annotated[str, Path(examples=["exe_01k9x7p4f8q2r6s0t3v5w7y9za.0.3"], max_length=80)]
PageSize = Annotated[int, Query(ge=1, le=500, description="Maximum number of entries")]
Cursor = Annotated[str | None, Query(max_length=120, description="`next_cursor` of the previous page")]


UserFilter = Annotated[
    str | None, Query(max_length=80, description="Those of this user (`user_…`); needs an admin key")
]


def read_user(user: str, field: str = "user") -> UserId:
    try:
        return UserId(decode_id(USER, user))
    except ValueError:
        raise InvalidFieldsError.of(field, "is not the id of a user") from None


def read_cursor(cursor: str | None) -> JobId | None:
    """A cursor is the last id of the previous page."""
    if cursor is None:
        return None
    try:
        return decode_job_id(cursor)
    except ValueError:
        raise _invalid_cursor() from None


def read_file_cursor(cursor: str | None) -> FileId | None:
    if cursor is None:
        return None
    try:
        return FileId(decode_id(FILE, cursor))
    except ValueError:
        raise _invalid_cursor() from None


def read_execution_cursor(cursor: str | None, job: JobId) -> ExecutionPlace | None:
    if cursor is None:
        return None
    try:
        of, stage, ordinal = decode_execution_id(cursor)
    except ValueError:
        raise _invalid_cursor() from None
    if of != job:
        raise _invalid_cursor()
    return ExecutionPlace(stage, ordinal)


def read_delivery_cursor(cursor: str | None) -> DeliveryId | None:
    if cursor is None:
        return None
    try:
        return DeliveryId(decode_id(DELIVERY, cursor))
    except ValueError:
        raise _invalid_cursor() from None


def read_audit_cursor(cursor: str | None) -> AuditId | None:
    if cursor is None:
        return None
    try:
        return AuditId(decode_id(AUDIT, cursor))
    except ValueError:
        raise _invalid_cursor() from None


def show_letter_cursor(cursor: DeadLetterCursor) -> str:
    """The last letter's id and time: the letter may be removed before the next page is requested."""
    return f"{encode_job_id(cursor.job)}.{(cursor.died_at - _EPOCH) // timedelta(microseconds=1)}"


def read_letter_cursor(cursor: str | None) -> DeadLetterCursor | None:
    if cursor is None:
        return None
    job, _, moment = cursor.partition(".")
    try:
        if not (moment.isascii() and moment.isdigit()):
            raise _invalid_cursor()
        return DeadLetterCursor(_EPOCH + timedelta(microseconds=int(moment)), decode_job_id(job))
    except (ValueError, OverflowError):
        raise _invalid_cursor() from None


def _invalid_cursor() -> InvalidFieldsError:
    return InvalidFieldsError.of("cursor", "is not a cursor of this list")
