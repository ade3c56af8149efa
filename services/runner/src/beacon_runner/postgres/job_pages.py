"""Finds jobs by filters, newest first, each by the index that serves its filters best."""

from typing import TYPE_CHECKING, Any

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from beacon_runner.domain.job_filter import JobFilter
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("job_pages")
UNSUCCESSFUL = frozenset({JobState.PARTIAL, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED})
MAX_SORTED = 2_000  # more jobs with a name are searched along the newest ones


async def fetch_page(
    store: "Database | Connection", wanted: JobFilter, after: JobId | None, limit: int
) -> list[Any]:
    """At most `limit` rows of jobs that match, with ids below `after`."""
    name, more = _plan(wanted)
    return await store.fetch(_SQL[name], *_filters(wanted, after), limit, *more)


def _plan(wanted: JobFilter) -> tuple[str, tuple[Any, ...]]:
    """The statement, and its parameters after the filters."""
    label, user = wanted.first_label, wanted.user
    if user is None:
        return ("page_of_all", ()) if label is None else ("page_of_all_by_label", label)
    name = _index_of(wanted)
    more = {"page_by_label": label or (), "page_by_name": (MAX_SORTED,)}
    return name, (user, *more.get(name, ()))


def _index_of(wanted: JobFilter) -> str:
    """The first that serves one of the filters; jobs that did not complete are few."""
    few = bool(wanted.states) and UNSUCCESSFUL.issuperset(wanted.states)
    indexes = {
        "page": few,
        "page_by_label": wanted.first_label is not None,
        "page_by_model": wanted.model is not None,
        "page_by_name": wanted.name is not None,
        "page_by_kind": wanted.kind not in (None, "generation"),
    }
    return next((name for name, serves in indexes.items() if serves), "page")


def _filters(wanted: JobFilter, after: JobId | None) -> tuple[Any, ...]:
    first, end = wanted.id_range
    return (
        end if after is None else min(end, after),
        first,
        wanted.states or None,
        wanted.kind,
        wanted.model,
        wanted.labels,
        wanted.name,
    )
