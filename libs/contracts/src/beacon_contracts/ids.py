"""Identifiers: UUIDv7 inside, a readable prefix and 26 letters outside (`job_01k…`), sortable by time."""

import re
from functools import lru_cache
from typing import NewType
from uuid import UUID

import uuid_utils

JobId = NewType("JobId", UUID)
UserId = NewType("UserId", UUID)
KeyId = NewType("KeyId", UUID)

JOB = "job"
USER = "user"
KEY = "key"
EXECUTION = "exe"

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford: no i, l, o, u
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}
_LENGTH = 26
_PLACE = re.compile(r"0|[1-9][0-9]{0,5}")  # no leading zeros: one execution has one name
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]


class InvalidIdError(ValueError):
    """A string that is not an identifier of the expected kind."""


def new_uuid() -> UUID:
    """A fresh UUIDv7: later ones sort after earlier ones."""
    return UUID(bytes=new_uuid_bytes())


def new_uuid_bytes() -> bytes:
    """The same for whoever has a class of their own for it."""
    return uuid_utils.uuid7().bytes


def timestamp_of(value: UUID) -> float:
    """When that was, in Unix time, by the clock of whoever made it."""
    return (value.int >> 80) / 1000


def encode_id(prefix: str, value: UUID) -> str:
    """`encode_id("job", uuid)` is `job_` and 26 letters."""
    number = value.int
    return f"{prefix}_{_first_letters(number >> 20)}{_PAIRS[number >> 10 & 1023]}{_PAIRS[number & 1023]}"


@lru_cache(maxsize=4_096)  # the jobs of a batch share them; a request names its job twice, and its user often
def _first_letters(number: int) -> str:
    """All but the last four."""
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(100, -1, -10)])


def decode_id(prefix: str, text: str) -> UUID:
    """The inverse of `show`; refuses every other string."""
    head, _, letters = text.partition("_")
    if head != prefix or len(letters) != _LENGTH:
        raise InvalidIdError(f"{text[:60]!r} is not an id of the form {prefix}_ and {_LENGTH} letters")
    number = 0
    for letter in letters:
        value = _VALUES.get(letter)
        if value is None:
            raise InvalidIdError(f"{text[:60]!r} has the letter {letter!r}, which no id has")
        number = number << 5 | value
    if number >> 128:
        raise InvalidIdError(f"{text[:60]!r} is larger than any id")
    return UUID(int=number)


def encode_job_id(job: JobId) -> str:
    return encode_id(JOB, job)


def decode_job_id(text: str) -> JobId:
    return JobId(decode_id(JOB, text))


def encode_execution_id(job: JobId, stage: int, ordinal: int) -> str:
    """Named by its job and its place in the plan, so that an execution has a name before it has a row."""
    return f"{encode_id(EXECUTION, job)}.{stage}.{ordinal}"


def decode_execution_id(text: str) -> tuple[JobId, int, int]:
    head, *places = text.split(".")
    if len(places) != 2 or not all(_PLACE.fullmatch(place) for place in places):
        raise InvalidIdError(f"{text[:60]!r} is not an execution id of the form exe_….stage.number")
    return JobId(decode_id(EXECUTION, head)), int(places[0]), int(places[1])
