"""Generic plans of the store's statements, and what they read."""

import json
from typing import Any

from beacon_runner.postgres.statements import statements
from tests.integration.runner_store.harness import StoreHarness
from tests.integration.runner_store.statements import EXPLAIN, FORCE_GENERIC

# Statement, and how many parameters it has; all may be null for a generic plan.
HOT = [
    ("claims", "claim"),
    ("results", "record"),
    ("results", "recount"),
    ("results", "try_again"),
    ("run_updates", "record"),
    ("outbox", "take"),
    ("reconcile", "live_page"),
    ("reconcile", "republish"),
    ("reconcile", "oldest"),
    ("reconcile", "promote"),
    ("job_queries", "job"),
    ("job_queries", "executions"),
    ("job_queries", "execution"),
    *(("job_pages", name) for name in statements("job_pages")),
    ("job_queries", "events"),
    ("submissions", "by_idempotency_keys"),
    ("submissions", "batch_of"),
    ("users", "principal"),
    ("webhooks", "record"),
    ("webhooks", "remove_ended"),
    ("files", "used_bytes"),
    ("files", "files_page"),
    ("files", "outputs_of_job"),
    ("files", "take_expired"),
    ("files", "lock_usable"),
    ("files", "link_files"),
    ("files", "files_of_jobs"),
    ("files", "live_job_of_file"),
    ("job_commands", "requeue"),
    ("retention", "find_jobs"),
    ("retention", "find_events"),
    ("retention", "remove_jobs"),
    ("retention", "remove_events"),
    ("retention", "remove_idempotency_keys"),
]
INDEX_SCANS = ("Index Scan", "Index Only Scan")
BIG = {"jobs", "job_labels", "executions", "job_events", "outbox", "api_keys", "dead_letters", "attempts"} | {
    "files",
    "job_files",
}


def scans(plan: dict[str, Any]) -> list[str]:
    """Tables that the plan scans completely, directly or along an index."""
    kind = plan["Node Type"]
    if kind == "Limit":
        return []  # it walks along an index, and only as far as it needs
    whole = "Relation Name" in plan and "Index Cond" not in plan and "Scan" in kind
    found = [plan["Relation Name"]] if whole and kind != "Bitmap Heap Scan" else []
    for child in plan.get("Plans", ()):
        found += scans(child)
    return found


async def generic_plan(harness: StoreHarness, statement: str) -> dict[str, Any]:
    async with harness.database.acquire() as connection:
        prepared = await connection.prepare(statement)
        await connection.execute(FORCE_GENERIC)
        nulls = ", ".join("NULL" for _ in prepared.get_parameters())
        name = prepared.get_name()
        call = f"({nulls})" if nulls else ""
        text = await connection.fetchval(f"{EXPLAIN} EXECUTE {name}{call}")
    plans = text if isinstance(text, list) else json.loads(text)
    root: dict[str, Any] = plans[0]["Plan"]
    return root


def nodes(plan: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    found = [plan] if plan["Node Type"] == kind else []
    for child in plan.get("Plans", ()):
        found += nodes(child, kind)
    return found
