"""Frequent statements find rows by key, in empty and in full tables."""

import json
from typing import Any

import pytest

from beacon_contracts.ids import new_uuid
from beacon_runner.postgres.statements import statements
from tests.fixtures.statement_files import statement_files
from tests.integration.runner_store.harness import GENERATION, StoreHarness, judged, new_job
from tests.integration.runner_store.plans import BIG, HOT, INDEX_SCANS, generic_plan, nodes, scans
from tests.integration.runner_store.statements import MANY_AUDIT_ENTRIES


@pytest.mark.parametrize(("file", "name"), HOT)
async def test_hot_statements_scan_no_whole_table(harness: StoreHarness, file: str, name: str) -> None:
    plan = await generic_plan(harness, statements(file)[name])
    assert not set(scans(plan)) & BIG


async def test_the_claim_uses_the_key_when_many_jobs_wait(harness: StoreHarness) -> None:
    user = new_uuid()
    await harness.submissions.submit([new_job(user=user) for _ in range(5_000)])
    plan = await generic_plan(harness, statements("claims")["claim"])
    text = json.dumps(plan)
    assert "jobs_pkey" in text
    assert scans(plan) == []


@pytest.mark.parametrize("name", ["live_page", "oldest", "promote"])
async def test_the_oldest_waiting_job_is_found_by_index(harness: StoreHarness, name: str) -> None:
    """The gauge of the oldest job once read all of them, every 15 seconds."""
    await harness.submissions.submit([new_job(user=new_uuid()) for _ in range(5_000)])
    plan = await generic_plan(harness, statements("reconcile")[name])
    assert "jobs_by_arrival" in json.dumps(plan)
    assert "Sort" not in json.dumps(plan)
    assert scans(plan) == []


@pytest.mark.parametrize("history", [0, 1_000])
async def test_the_use_of_a_limit_merges_two_index_scans(harness: StoreHarness, history: int) -> None:
    """Live and ended jobs have an index each; both are merged, newest first."""
    await live_and_end(harness, history)
    arms = merged_arms(await generic_plan(harness, statements("submissions")["used"]))
    assert [scan["Index Name"] for scan in arms] == ["jobs_live", "jobs_ended"]


@pytest.mark.parametrize("history", [0, 1_000])
async def test_rare_states_do_not_scan_a_long_history(harness: StoreHarness, history: int) -> None:
    """States that were not requested are not scanned: their branch has a one-time filter."""
    await live_and_end(harness, history)
    plan = await generic_plan(harness, statements("job_pages")["page"])
    arms = merged_arms(plan)
    assert [scan["Index Name"] for scan in arms] == ["jobs_live", "jobs_not_completed", "jobs_ended"]
    gates = [gate["One-Time Filter"] for gate in nodes(plan, "Result")]
    assert [word in gate for word, gate in zip(("queued", "partial", "completed"), gates, strict=True)] == [
        True
    ] * 3


@pytest.mark.parametrize(
    ("name", "indexes"),
    [
        ("page_by_kind", {"jobs_by_kind"}),
        ("page_by_model", {"jobs_by_model", "job_labels_pkey", "jobs_pkey"}),
        ("page_by_label", {"job_labels_pkey", "jobs_pkey"}),
        ("page_of_all_by_label", {"job_labels_of_all", "jobs_pkey"}),
        ("page_of_all", {"jobs_pkey"}),
        ("page_of_all_by_outcome", {"jobs_of_all_by_outcome"}),
        ("page_of_given", {"jobs_pkey"}),
        ("some_by_name", {"jobs_by_name"}),
        ("some_of_all_by_name", {"jobs_of_all_by_name"}),
        ("some_by_outcome", {"jobs_by_outcome"}),
        ("some_of_all_by_outcome", {"jobs_of_all_by_outcome"}),
        ("some_of_all_live", {"jobs_by_arrival"}),
        ("some_by_kind", {"jobs_by_kind"}),
        ("some_of_all_by_kind", {"jobs_by_kind"}),
        ("some_by_model", {"jobs_by_model", "job_labels_pkey"}),
        ("some_by_label", {"job_labels_pkey"}),
        ("some_of_all_by_label", {"job_labels_of_all"}),
        ("some_of_all_by_model", {"jobs_by_model", "job_labels_of_all"}),
    ],
)
async def test_a_filter_is_served_by_its_index_when_one_user_has_all_jobs(
    harness: StoreHarness, name: str, indexes: set[str]
) -> None:
    """With few users the planner once walked along the ids of all jobs: a second at a million."""
    labelled = GENERATION._replace(name="bias", model="flux", labels={"tags": ["old"], "models": ["a", "b"]})
    await harness.submissions.submit([new_job(labelled) for _ in range(2_000)])
    await live_and_end(harness, 500)
    async with harness.database.acquire() as connection:
        await connection.execute("VACUUM ANALYZE jobs, job_labels")
    plan = await generic_plan(harness, statements("job_pages")[name])
    used = {node["Index Name"] for kind in INDEX_SCANS for node in nodes(plan, kind)}
    assert used == indexes
    assert nodes(plan, "Bitmap Heap Scan") == []
    walked = [node for kind in INDEX_SCANS for node in nodes(plan, kind) if node["Index Name"] == "jobs_pkey"]
    if name != "page_of_all":
        assert all("(id = " in node["Index Cond"] for node in walked)


def merged_arms(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The index scans that the plan merges; each is limited to the page."""
    (merged,) = nodes(plan, "Merge Append")
    arms = [scan for arm in merged["Plans"] for scan in nodes(arm, "Index Scan")]
    bounds = ("(user_id = ", "(ROW(user_id, id) ")
    assert all(any(bound in scan["Index Cond"] for bound in bounds) for scan in arms)
    assert len(nodes(merged, "Limit")) == len(arms)
    assert nodes(plan, "Sort") == []
    return arms


async def live_and_end(harness: StoreHarness, count: int) -> None:
    if count:
        await end(harness, count)
        await harness.submissions.submit([new_job() for _ in range(count)])


async def end(harness: StoreHarness, count: int) -> None:
    """Complete so many jobs."""
    await harness.submissions.submit([new_job() for _ in range(count)])
    claimed = await harness.claims.claim(await harness.messages(), "w1")
    await harness.claims.record([judged(one, "done") for one in claimed])


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("page", "audit_log_pkey"),
        ("page_by_action", "audit_log_of_action"),
        ("page_by_actor", "audit_log_of_actor"),
        ("page_by_target", "audit_log_of_target"),
    ],
)
async def test_a_filter_of_the_audit_log_is_served_by_its_index(
    harness: StoreHarness, name: str, index: str
) -> None:
    async with harness.database.acquire() as connection:
        await connection.execute(MANY_AUDIT_ENTRIES)
        await connection.execute("ANALYZE audit_log")
    plan = await generic_plan(harness, statements("audit")[name])
    assert index in [node["Index Name"] for kind in INDEX_SCANS for node in nodes(plan, kind)]
    assert nodes(plan, "Sort") == nodes(plan, "Bitmap Heap Scan") == []


async def test_a_claim_updates_no_index(harness: StoreHarness) -> None:
    """No index may name a column that a claim changes, not even in its condition.

    Every page must have room for a second version of its rows, which has the name of a worker.
    """
    await harness.submissions.submit([new_job(user=new_uuid()) for _ in range(200)])
    await harness.claims.claim(await harness.messages(), "worker-5d8f7c9b64-x2x7q-4711-0123456789abcdef")
    async with harness.database.acquire() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        row = await connection.fetchrow(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'jobs'"
        )
    assert row is not None
    assert tuple(row) == (200, 200)


async def test_every_statement_fits_the_schema(harness: StoreHarness) -> None:
    async with harness.database.acquire() as connection:
        for file in statement_files():
            for name, statement in statements(file).items():
                prepared = await connection.prepare(statement)
                assert prepared.get_query(), f"{file}.{name}"
