"""Identifiers: UUIDv7 inside; TypeID outside, a prefix and 26 letters (`job_01k…`) that sort by time."""

import re
from typing import NewType
from uuid import UUID

import uuid_utils
from typeid import TypeID, base32
from typeid.errors import TypeIDException

JobId = NewType("JobId", UUID)
UserId = NewType("UserId", UUID)
KeyId = NewType("KeyId", UUID)
FileId = NewType("FileId", UUID)
WebhookId = NewType("WebhookId", UUID)
DeliveryId = NewType("DeliveryId", UUID)
OperationId = NewType("OperationId", UUID)
AuditId = NewType("AuditId", UUID)

JOB = "job"
USER = "user"
KEY = "key"
FILE = "file"
WEBHOOK = "webhook"
DELIVERY = "msg"
OPERATION = "op"
AUDIT = "audit"
EXECUTION = "exe"

_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")  # no leading zeros: one execution has one id


class InvalidIdError(ValueError):
    """A string that is not an identifier of the expected kind."""


def new_uuid() -> UUID:
    """A fresh UUIDv7: later ones sort after earlier ones."""
    return UUID(bytes=uuid_utils.uuid7().bytes)


def encode_id(prefix: str, value: UUID) -> str:
    """`encode_id("job", uuid)` is `job_` and 26 letters."""
    return f"{prefix}_{base32.encode(value.bytes)}"


def decode_id(prefix: str, text: str) -> UUID:
    """The inverse of `encode_id`; raises InvalidIdError for any other string."""
    try:
        found = TypeID.from_string(text)
    except TypeIDException as error:
        raise _invalid(prefix, text) from error
    if found.prefix != prefix:
        raise _invalid(prefix, text)
    return UUID(bytes=found.uuid_bytes)


def _invalid(prefix: str, text: str) -> InvalidIdError:
    return InvalidIdError(f"{text[:60]!r} is not an id of the form {prefix}_ and 26 letters")


def encode_job_id(job: JobId) -> str:
    """`job_` and 26 letters."""
    return encode_id(JOB, job)


def decode_job_id(text: str) -> JobId:
    """Raises `InvalidIdError`."""
    return JobId(decode_id(JOB, text))


def encode_execution_id(job: JobId, stage: int, ordinal: int) -> str:
    """An execution is identified by its job, stage and number, so it has an id before it has a row."""
    return f"{encode_id(EXECUTION, job)}.{stage}.{ordinal}"


def decode_execution_id(text: str) -> tuple[JobId, int, int]:
    """Its job, stage and ordinal. Raises `InvalidIdError`."""
    head, *numbers = text.split(".")
    if len(numbers) != 2 or not all(_NUMBER.fullmatch(number) for number in numbers):
        raise InvalidIdError(f"{text[:60]!r} is not an execution id of the form exe_….stage.number")
    return JobId(decode_id(EXECUTION, head)), int(numbers[0]), int(numbers[1])
