"""The filters of the list of jobs as query parameters."""

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import StringConstraints

from beacon_contracts.ids import UserId
from beacon_contracts.jobs import JobState, Tag
from beacon_contracts.model import Moment, Name, Text
from beacon_contracts.operations import JobSelector
from beacon_runner.domain.jobs.job_filter import JobFilter

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
    Moment | None, Query(description="Submitted at this time or later; ISO 8601 with an offset")
]
CreatedBefore = Annotated[Moment | None, Query(description="Submitted before this time")]


def read_filter(user: UserId | None, metadata: list[str] | None, **filters: Any) -> JobFilter:
    """`user` None: all users. `filters`: those of `JobSelector`, except metadata."""
    given = {name: value for name, value in filters.items() if value is not None}
    selector = JobSelector(metadata=dict(pair.split("=", 1) for pair in metadata or ()), **given)
    return JobFilter.of(selector, user)
