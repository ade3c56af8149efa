"""Finds jobs by filters, newest first, each by the index that serves its filters best."""

from typing import TYPE_CHECKING, Any

from beacon_contracts.ids import JobId
from beacon_runner.domain.job_filter import JobFilter
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("job_pages")
MAX_SORTED = 5_000  # more jobs with a name are searched along the newest ones


async def fetch_page(
    store: "Database | Connection", wanted: JobFilter, after: JobId | None, limit: int
) -> list[Any]:
    """At most `limit` rows of jobs that match, with ids below `after`."""
    name, more = _plan(wanted)
    return await store.fetch(_SQL[name], *_filters(wanted, after), limit, *more)


def _plan(wanted: JobFilter) -> tuple[str, tuple[Any, ...]]:
    """The statement, and its parameters after the filters.

    1. A label: most specific. 2. A model. 3. A name. 4. A kind that is rare. 5. By state.
    """
    label, user = wanted.first_label, wanted.user
    if user is None:
        return ("page_of_all", ()) if label is None else ("page_of_all_by_label", label)
    if label is not None:
        return "page_by_label", (user, *label)
    if wanted.model is not None:
        return "page_by_model", (user,)
    if wanted.name is not None:
        return "page_by_name", (user, MAX_SORTED)
    if wanted.kind not in (None, "generation"):
        return "page_by_kind", (user,)
    return "page", (user,)


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
