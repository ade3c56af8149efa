"""Finds jobs by filters, newest first, each by the index that serves its filters best.

A page examines a bounded number of jobs, however many there are; the search goes on from `JobRows.next`.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from beacon_runner.domain.jobs.job_filter import JobFilter
from beacon_runner.domain.jobs.states import LIVE, TERMINAL
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("job_pages")
_UNSUCCESSFUL = TERMINAL - {JobState.COMPLETED}
_MOST_JOBS = (None, "generation")
MAX_EXAMINED = 3_000  # jobs that one page compares with the filters
MAX_SORTED = 1_000  # jobs that match one of several filters are sorted if they are not more


class JobRows(NamedTuple):
    """`next`: the search goes on below this id; None at its end. There may be no rows before it."""

    rows: Sequence[Any]
    next: JobId | None


async def fetch_page(
    store: "Database | Connection", wanted: JobFilter, after: JobId | None, limit: int
) -> JobRows:
    """At most `limit` rows of jobs that match, with ids below `after`."""
    filters = *_filters(wanted, after), limit + 1
    for name, values in _unordered_indexes(wanted):
        some = await store.fetch(_SQL[name], MAX_SORTED + 1, *values)
        if len(some) <= MAX_SORTED:
            given = [row["id"] for row in some]
            return _page(await store.fetch(_SQL["page_of_given"], *filters, given), limit)
    name, more = _ordered_index(wanted)
    return _page(await store.fetch(_SQL[name], *filters, MAX_EXAMINED, *more), limit)


def _page(rows: Sequence[Any], limit: int) -> JobRows:
    """The rows up to the last job that was examined, which need not match."""
    found: list[Any] = []
    for row in rows:
        if len(found) == limit:
            return JobRows(found, JobId(found[-1]["id"]))
        if row["found"]:
            found.append(row)
        if row["place"] == MAX_EXAMINED:
            return JobRows(found, JobId(row["id"]))
    return JobRows(found, None)


def _ordered_index(wanted: JobFilter) -> tuple[str, tuple[Any, ...]]:
    """The statement, and its parameters after the filters."""
    user = wanted.user
    if user is None:
        return _ordered_index_of_all(wanted)
    if _only(wanted, _UNSUCCESSFUL):  # jobs that did not complete are few
        return "page", (user,)
    if wanted.label_keys:
        return "page_by_label", (user, *wanted.label_keys[0])
    if wanted.model is not None:
        return "page_by_model", (user,)
    return ("page" if wanted.kind in _MOST_JOBS else "page_by_kind"), (user,)


def _ordered_index_of_all(wanted: JobFilter) -> tuple[str, tuple[Any, ...]]:
    if wanted.label_keys:
        return "page_of_all_by_label", wanted.label_keys[0]
    return ("page_of_all_by_outcome", wanted.states) if _one_outcome(wanted) else ("page_of_all", ())


def _unordered_indexes(wanted: JobFilter) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Statements that find jobs by one of the filters in no order of ids, with their parameters.

    Not by the filter that the ordered index serves: it is read from the newest job until the page is full.
    """
    ordered = _ordered_index(wanted)[0]
    found: list[tuple[str, tuple[Any, ...]]] = []
    if _only(wanted, _UNSUCCESSFUL) and ordered != "page_of_all_by_outcome":
        found.append(("outcome", (wanted.states,)))
    if wanted.name is not None:
        found.append(("name", (wanted.name,)))
    if wanted.model is not None and ordered != "page_by_model":
        found.append(("model", (wanted.model,)))
    if wanted.kind not in _MOST_JOBS and ordered != "page_by_kind":
        found.append(("kind", (wanted.kind,)))
    first = 1 if ordered.endswith("by_label") else 0
    found += [("label", label) for label in wanted.label_keys[first:]]
    for name, values in found:
        if wanted.user is not None:
            yield f"some_by_{name}", (wanted.user, *values)
        else:
            yield f"some_of_all_by_{name}", values
    if wanted.user is None and _only(wanted, LIVE):
        yield "some_of_all_live", ()


def _one_outcome(wanted: JobFilter) -> bool:
    return len(wanted.states) == 1 and _only(wanted, _UNSUCCESSFUL)


def _only(wanted: JobFilter, states: frozenset[JobState]) -> bool:
    return bool(wanted.states) and states.issuperset(wanted.states)


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
