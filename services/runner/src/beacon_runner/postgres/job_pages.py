"""Finds jobs by filters, newest first, each by the index that serves its filters best.

A page examines a bounded number of jobs, however many there are; the search goes on from `JobRows.next`.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from beacon_runner.domain.job_filter import JobFilter
from beacon_runner.domain.states import LIVE, TERMINAL
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("job_pages")
_UNSUCCESSFUL = TERMINAL - {JobState.COMPLETED}
MAX_EXAMINED = 3_000  # jobs that one page compares with the filters
MAX_SORTED = 1_000  # more jobs of an index that is not in the order of ids are searched along the newest jobs


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
    label, user = wanted.first_label, wanted.user
    if user is None:
        return _ordered_index_of_all(wanted)
    if _only(wanted, _UNSUCCESSFUL):  # jobs that did not complete are few
        return "page", (user,)
    if label is not None:
        return "page_by_label", (user, *label)
    if wanted.model is not None:
        return "page_by_model", (user,)
    if wanted.kind not in (None, "generation"):
        return "page_by_kind", (user,)
    return "page", (user,)


def _ordered_index_of_all(wanted: JobFilter) -> tuple[str, tuple[Any, ...]]:
    if wanted.first_label is not None:
        return "page_of_all_by_label", wanted.first_label
    return ("page_of_all_by_outcome", wanted.states) if _one_outcome(wanted) else ("page_of_all", ())


def _unordered_indexes(wanted: JobFilter) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Statements that find jobs by one of the filters in no order of ids, with their parameters."""
    if wanted.first_label is not None:
        return
    if wanted.user is not None:
        if _only(wanted, _UNSUCCESSFUL):
            yield "some_by_outcome", (wanted.states, wanted.user)
        if wanted.name is not None and _ordered_index(wanted)[0] == "page":
            yield "some_by_name", (wanted.name, wanted.user)
        return
    if _only(wanted, _UNSUCCESSFUL) and not _one_outcome(wanted):
        yield "some_of_all_by_outcome", (wanted.states,)
    if _only(wanted, LIVE):
        yield "some_of_all_live", ()
    if wanted.name is not None:
        yield "some_of_all_by_name", (wanted.name,)
    if wanted.model is not None:
        yield "some_of_all_by_model", (wanted.model,)
    if wanted.kind not in (None, "generation"):
        yield "some_of_all_by_kind", (wanted.kind,)


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
