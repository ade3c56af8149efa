"""Filters of the list of jobs find a page by their indexes, in a database with a million jobs.

`benchmarks/results/job_lists.md` has the time of each page.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import asyncpg
import pytest

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from beacon_runner.domain.jobs.job_filter import JobFilter
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.jobs.job_pages import MAX_EXAMINED, MAX_SORTED, fetch_page
from beacon_runner.postgres.statements import statements
from tests.fixtures.databases import Databases
from tests.integration.runner_store.harness import StoreHarness
from tests.integration.runner_store.plans import HOT, INDEX_SCANS, generic_plan, nodes, scans
from tests.integration.runner_store.searches import FILTERS, HALF_AN_HOUR_AGO, ONE
from tests.integration.runner_store.statements import LABEL_JOBS, MANY_JOBS, ROWS_READ

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

JOBS, PAGE = 1_000_000, 50
MIDDLE = JobId(UUID(int=int((HALF_AN_HOUR_AGO.timestamp() - JOBS / 2) * 1000) << 80))


class Served(NamedTuple):
    """The indexes that serve a filter of a user, and of an operator for all users."""

    of_user: set[str]
    of_all: set[str]


SERVED: list[tuple[dict[str, Any], Served]] = [
    ({}, Served({"jobs_live", "jobs_ended"}, {"jobs_pkey"})),
    ({"states": (JobState.QUEUED,)}, Served({"jobs_live"}, {"jobs_by_arrival"})),
    ({"states": (JobState.FAILED,)}, Served({"jobs_not_completed"}, {"jobs_of_all_by_outcome"})),
    ({"states": (JobState.COMPLETED,)}, Served({"jobs_ended"}, {"jobs_pkey"})),
    ({"kind": "matrix"}, Served({"jobs_by_kind"}, {"jobs_by_kind"})),
    (
        {"model": "model-1"},
        Served({"jobs_by_model", "job_labels_pkey"}, {"jobs_by_model", "job_labels_of_all"}),
    ),
    ({"tags": ("common",)}, Served({"job_labels_pkey"}, {"job_labels_of_all"})),
    ({"metadata": {"team": "blue"}}, Served({"job_labels_pkey"}, {"job_labels_of_all"})),
    ({"name": "Run 12"}, Served({"jobs_by_name"}, {"jobs_of_all_by_name"})),
    ({"created_before": HALF_AN_HOUR_AGO}, Served({"jobs_live", "jobs_ended"}, {"jobs_pkey"})),
]


@dataclass(slots=True)
class Recorded:
    """A connection that records the statements of a page."""

    connection: "Connection"
    statements: list[str] = field(default_factory=list)

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        self.statements.append(statement)
        return await self.connection.fetch(statement, *values)


@pytest.fixture(scope="module")
def a_million_jobs(test_databases: Databases, template: str) -> Iterator[str]:
    """A database that these tests only read; filling it takes about 12 s of one processor."""
    with test_databases.clone(template) as url:
        asyncio.run(fill(url))
        yield url


async def fill(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("ALTER TABLE jobs SET UNLOGGED; ALTER TABLE job_labels SET UNLOGGED")
        await connection.execute(MANY_JOBS, JOBS)
        await connection.execute(LABEL_JOBS)
        await connection.execute("VACUUM ANALYZE jobs, job_labels")
    finally:
        await connection.close()


@pytest.fixture
async def harness(a_million_jobs: str) -> AsyncIterator[StoreHarness]:
    database = Database(a_million_jobs, size=1)
    await database.open()
    yield StoreHarness(database)
    await database.close()


@pytest.mark.parametrize("of_all", [False, True], ids=["user", "operator"])
@pytest.mark.parametrize(
    ("chosen", "served"), SERVED, ids=["-".join(chosen) or "all" for chosen, _ in SERVED]
)
async def test_each_filter_is_served_by_its_index(
    harness: StoreHarness, chosen: dict[str, Any], served: Served, of_all: bool
) -> None:
    used: set[str] = set()
    wanted = JobFilter(None if of_all else ONE, **chosen)
    for statement in await statements_of(harness, wanted):
        plan = await generic_plan(harness, statement)
        used |= {node["Index Name"] for kind in INDEX_SCANS for node in nodes(plan, kind)}
    assert used >= (served.of_all if of_all else served.of_user)


@pytest.mark.parametrize("name", statements("job_pages"))
async def test_no_plan_scans_a_table_or_sorts_without_a_bound(harness: StoreHarness, name: str) -> None:
    plan = await generic_plan(harness, statements("job_pages")[name])
    assert scans(plan) == []
    assert [node["Relation Name"] for kind in TABLE_SCANS for node in nodes(plan, kind)] == []
    for sort in (*nodes(plan, "Sort"), *nodes(plan, "Incremental Sort")):
        assert unbounded(sort) == []


TABLE_SCANS = ("Seq Scan", "Bitmap Heap Scan")


def unbounded(plan: dict[str, Any]) -> list[str]:
    """Indexes that the node reads without a limit, except by a whole key."""
    if plan["Node Type"] == "Limit":
        return []
    cond = plan.get("Index Cond", "(id = ")
    found = [] if cond.startswith("(id = ") else [str(plan["Index Name"])]
    return found + [name for child in plan.get("Plans", ()) for name in unbounded(child)]


@pytest.mark.parametrize("of_all", [False, True], ids=["user", "operator"])
async def test_a_page_reads_few_rows_of_a_million(harness: StoreHarness, of_all: bool) -> None:
    """From the newest job and from the middle of the list."""
    async with harness.database.acquire() as connection:
        for chosen in FILTERS:
            wanted = JobFilter(None if of_all else ONE, **chosen)
            for after in (None, MIDDLE):
                before = await rows_read(connection)
                await fetch_page(connection, wanted, after, PAGE)
                read = await rows_read(connection) - before
                assert read <= MAX_EXAMINED + 3 * MAX_SORTED, (after, wanted)


@pytest.mark.parametrize(("file", "name"), HOT)
async def test_hot_statements_scan_no_whole_table(harness: StoreHarness, file: str, name: str) -> None:
    assert scans(await generic_plan(harness, statements(file)[name])) == []


async def statements_of(harness: StoreHarness, wanted: JobFilter) -> list[str]:
    async with harness.database.acquire() as connection:
        recorded = Recorded(connection)
        await fetch_page(recorded, wanted, None, PAGE)  # type: ignore[arg-type]
    return recorded.statements


async def rows_read(connection: "Connection") -> int:
    await connection.execute("SELECT pg_stat_force_next_flush()")
    return int(await connection.fetchval(ROWS_READ))
