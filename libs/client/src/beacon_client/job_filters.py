"""The filters of lists of jobs and of operations on many jobs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from beacon_contracts.jobs import JobState
from beacon_contracts.operations import JobSelector


class JobFilters(TypedDict, total=False):
    """A job must match all that are given. `user` and `all_users` are for administrators."""

    status: JobState | Sequence[JobState] | None
    kind: str | None
    model: str | None
    tag: str | Sequence[str] | None
    metadata: Mapping[str, str] | None
    name: str | None
    created_after: datetime | None
    created_before: datetime | None
    user: str | None
    all_users: bool


def query_of(filters: JobFilters) -> dict[str, Any]:
    """The filters as query parameters of the list of jobs."""
    given: dict[str, Any] = {name: value for name, value in filters.items() if value}
    if "metadata" in given:
        given["metadata"] = [f"{key}={value}" for key, value in given["metadata"].items()]
    if "all_users" in given:
        given["all_users"] = "true"
    for name in ("created_after", "created_before"):
        if name in given:
            given[name] = given[name].isoformat()
    return given


def selector_of(filters: JobFilters) -> JobSelector:
    """The filters as the filter of an operation."""
    given: dict[str, Any] = {name: value for name, value in filters.items() if value}
    for name in ("status", "tag"):
        if isinstance(given.get(name), str):
            given[name] = [given[name]]
    return JobSelector.model_validate(given)
