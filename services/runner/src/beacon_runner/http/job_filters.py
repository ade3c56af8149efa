"""The filters of the list of jobs as query parameters."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import Query
from pydantic import StringConstraints

from beacon_contracts.ids import UserId
from beacon_contracts.jobs import JobState, Tag
from beacon_contracts.model import Name, Text
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.domain.job_filter import JobFilter

Kind = Literal["matrix", "pipeline", "generation"]
MetadataPair = Annotated[
    str, StringConstraints(max_length=580, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*=[^\x00]*$")
]

States = Annotated[list[JobState] | None, Query(description="In one of these states")]
KindFilter = Annotated[Kind | None, Query()]
ModelFilter = Annotated[Name | None, Query(description="With this model, alone or among others")]
TagFilter = Annotated[list[Tag] | None, Query(max_length=16, description="With all of these tags")]
MetadataFilter = Annotated[
    list[MetadataPair] | None,
    Query(max_length=16, description="With all of these pairs of metadata, each as `key=value`"),
]
NameFilter = Annotated[
    Text | None,
    Query(min_length=1, max_length=200, description="Whose name begins with this text, in any case"),
]
CreatedAfter = Annotated[
    datetime | None, Query(description="Submitted at this time or later; ISO 8601 with an offset")
]
CreatedBefore = Annotated[datetime | None, Query(description="Submitted before this time")]


def read_filter(
    user: UserId | None,
    *,
    status: list[JobState] | None,
    kind: str | None,
    model: str | None,
    tag: list[str] | None,
    metadata: list[str] | None,
    name: str | None,
    created_after: datetime | None,
    created_before: datetime | None,
) -> JobFilter:
    """`user` None: all users."""
    return JobFilter(
        user,
        tuple(status or ()),
        kind,
        model,
        tuple(tag or ()),
        dict(pair.split("=", 1) for pair in metadata or ()),
        name,
        _moment("created_after", created_after),
        _moment("created_before", created_before),
    )


def _moment(field: str, moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise InvalidFieldsError.of(field, "needs an offset, such as Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidFieldsError.of(field, "is out of range") from None
