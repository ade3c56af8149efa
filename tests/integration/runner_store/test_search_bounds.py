"""Lists of jobs read a bounded number of rows per page, whatever is searched for.

`benchmarks/results/job_lists.md` has the time of each page in a database with a million jobs.
"""

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from beacon_contracts.ids import JobId
from beacon_runner.domain.jobs.job_filter import JobFilter
from beacon_runner.postgres.jobs import job_pages
from tests.integration.runner_store.harness import StoreHarness
from tests.integration.runner_store.searches import FILTERS, ONE
from tests.integration.runner_store.statements import LABEL_JOBS, MANY_JOBS, ROWS_READ

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

JOBS, PAGE, EXAMINED, SORTED = 4_000, 20, 300, 100


async def test_every_search_is_complete_and_reads_few_rows_per_page(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_pages, "MAX_EXAMINED", EXAMINED)
    monkeypatch.setattr(job_pages, "MAX_SORTED", SORTED)
    async with harness.database.acquire() as connection:
        await connection.execute(MANY_JOBS, JOBS)
        await connection.execute(LABEL_JOBS)
        await connection.execute("VACUUM ANALYZE jobs, job_labels")
        everything = await connection.fetch("SELECT * FROM jobs ORDER BY id DESC")
        for plans in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"SET plan_cache_mode = {plans}")
            for user in (None, ONE):
                for chosen in FILTERS:
                    wanted = JobFilter(user, **chosen)
                    found, most_read = await search(connection, wanted)
                    assert found == [row["id"] for row in everything if matches(row, wanted)], wanted
                    assert most_read <= EXAMINED + 3 * SORTED, (plans, wanted)


async def search(connection: "Connection", wanted: JobFilter) -> tuple[list[JobId], int]:
    """All jobs of the search, and the most rows that were read for one page."""
    found: list[JobId] = []
    after, most_read = None, 0
    while True:
        before = await rows_read(connection)
        page = await job_pages.fetch_page(connection, wanted, after, PAGE)
        most_read = max(most_read, await rows_read(connection) - before)
        assert len(page.rows) <= PAGE
        found += [row["id"] for row in page.rows]
        if page.next is None:
            return found, most_read
        assert after is None or page.next < after
        after = page.next


async def rows_read(connection: "Connection") -> int:
    await connection.execute("SELECT pg_stat_force_next_flush()")
    return int(await connection.fetchval(ROWS_READ))


def matches(row: Any, wanted: JobFilter) -> bool:
    """The rules once more, without SQL."""
    labels = {} if row["labels"] is None else orjson.loads(row["labels"])
    return (
        wanted.user in (None, row["user_id"])
        and (not wanted.states or row["state"] in wanted.states)
        and wanted.kind in (None, row["kind"])
        and (wanted.model is None or wanted.model in (row["model"], *labels.get("models", ())))
        and set(wanted.tags) <= set(labels.get("tags", ()))
        and wanted.metadata.items() <= labels.get("metadata", {}).items()
        and row["name"].lower().startswith((wanted.name or "").lower())
        and (wanted.created_after is None or row["created_at"] >= wanted.created_after)
        and (wanted.created_before is None or row["created_at"] < wanted.created_before)
    )
