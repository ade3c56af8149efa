"""The pages that are measured."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import JobState
from beacon_runner.domain.jobs.job_filter import JobFilter
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.jobs.job_queries import PostgresJobQueries

PAGE = 50
WARM_UP = 3


class Page(NamedTuple):
    """`found`: jobs on the page. `whole`: it is full or the last one; otherwise the search goes on."""

    name: str
    start: str
    found: int
    whole: bool
    milliseconds: list[float]


def filters(user: UserId) -> dict[str, JobFilter]:
    week_ago = datetime.now(UTC) - timedelta(days=7)
    return {
        "all": JobFilter(user),
        "state completed": JobFilter(user, (JobState.COMPLETED,)),
        "state failed": JobFilter(user, (JobState.FAILED,)),
        "state queued": JobFilter(user, (JobState.QUEUED,)),
        "state that no job has": JobFilter(user, (JobState.EXPIRED,)),
        "kind matrix": JobFilter(user, kind="matrix"),
        "model": JobFilter(user, model="model-3"),
        "tag of half of the jobs": JobFilter(user, tags=("common",)),
        "tag of one in 5,000": JobFilter(user, tags=("rare",)),
        "tag that no job has": JobFilter(user, tags=("unknown",)),
        "model that no job has": JobFilter(user, model="unknown"),
        "metadata": JobFilter(user, metadata={"team": "blue"}),
        "name": JobFilter(user, name="run 12"),
        "time": JobFilter(user, created_before=week_ago),
        "tag, model and state": JobFilter(user, (JobState.COMPLETED,), model="model-7", tags=("common",)),
        "tag of half, unknown model": JobFilter(user, model="unknown", tags=("common",)),
        "state completed, unknown name": JobFilter(user, (JobState.COMPLETED,), name="unknown"),
        "operator: all users": JobFilter(),
        "operator: tag of one in 5,000": JobFilter(tags=("rare",)),
        "operator: state failed": JobFilter(states=(JobState.FAILED,)),
        "operator: state queued": JobFilter(states=(JobState.QUEUED,)),
        "operator: state that no job has": JobFilter(states=(JobState.EXPIRED,)),
        "operator: model": JobFilter(model="model-3"),
        "operator: model that no job has": JobFilter(model="unknown"),
        "operator: name": JobFilter(name="run 12"),
        "operator: name of one job": JobFilter(name="run 120001"),
        "operator: kind matrix": JobFilter(kind="matrix"),
        "operator: kind that no job has": JobFilter(kind="pipeline"),
        "operator: completed, unknown name": JobFilter(states=(JobState.COMPLETED,), name="unknown"),
        "operator: completed, kind matrix, one model": JobFilter(
            states=(JobState.COMPLETED,), kind="matrix", model="model-3"
        ),
    }


async def measure(database: Database, user: UserId, rounds: int) -> list[Page]:
    return [
        await _measure_page(database, name, wanted, start, after, rounds)
        for name, wanted in filters(user).items()
        for start, after in _starts()
    ]


def _starts() -> Iterator[tuple[str, JobId | None]]:
    yield "newest", None
    middle = datetime.now(UTC) - timedelta(days=15)
    yield "middle", JobId(UUID(int=int(middle.timestamp() * 1000) << 80))


async def _measure_page(  # noqa: PLR0917
    database: Database, name: str, wanted: JobFilter, start: str, after: JobId | None, rounds: int
) -> Page:
    queries, times, found, whole = PostgresJobQueries(database), [], 0, True
    for _ in range(WARM_UP + rounds):
        began = time.perf_counter()
        page = await queries.page(wanted, after=after, limit=PAGE)
        times.append((time.perf_counter() - began) * 1000)
        found, whole = len(page.jobs), page.next is None or len(page.jobs) == PAGE
    return Page(name, start, found, whole, times[WARM_UP:])
