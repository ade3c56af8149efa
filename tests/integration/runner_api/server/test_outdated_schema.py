"""A release that starts before its migration reports it on every route and continues after it."""

from typing import Any

import httpx
import pytest

from beacon_runner.migrations import head, migrate
from tests.integration.runner_api.accounts.test_auth import operations_with_key
from tests.integration.runner_api.harness import GENERATION, api_harness

JOB = "job_" + "0" * 26
MAKE_OUTDATED = """
    ALTER TABLE jobs RENAME COLUMN generation TO ticket;
    ALTER TABLE outbox RENAME COLUMN generation TO ticket;
    UPDATE alembic_version SET version_num = '0000';
"""
MAKE_CURRENT = """
    ALTER TABLE jobs RENAME COLUMN ticket TO generation;
    ALTER TABLE outbox RENAME COLUMN ticket TO generation;
    UPDATE alembic_version SET version_num = '0001';
"""

SUBMISSIONS: list[tuple[str, Any, dict[str, str]]] = [
    ("/api/v1/jobs", GENERATION, {}),
    ("/api/v1/jobs", GENERATION, {"idempotency-key": "once"}),
    ("/api/v1/jobs/batch", {"jobs": [GENERATION] * 2}, {}),
    ("/api/v1/jobs/batch", {"jobs": [GENERATION] * 2}, {"idempotency-key": "bulk"}),
    ("/generate", {"model": "flux", "prompt": "a cat"}, {}),
]
OTHERS = [
    ("GET", "/api/v1/jobs", None),
    ("GET", f"/api/v1/jobs/{JOB}", None),
    ("GET", f"/api/v1/jobs/{JOB}/why", None),
    ("GET", f"/api/v1/jobs/{JOB}/events", None),
    ("POST", f"/api/v1/jobs/{JOB}/cancel", None),
    ("POST", f"/api/v1/jobs/{JOB}/resume", None),
    ("POST", f"/api/v1/jobs/{JOB}/skip", None),
    ("GET", f"/api/v1/executions/exe_{'0' * 26}.0.0", None),
    ("POST", f"/api/v1/executions/exe_{'0' * 26}.0.0/retry-question", None),
    ("GET", "/api/v1/me", None),
    ("GET", "/api/v1/me/ledger", None),
    ("GET", "/api/queue", None),
    ("GET", "/queue-status", None),
    ("GET", "/status", None),
    ("GET", "/admin/runtime/stats", None),
    ("GET", "/admin/queue-dead", None),
    ("POST", "/admin/queue-dead/requeue", {"job_ids": [JOB]}),
    ("POST", "/admin/queues/low/pause", None),
    ("GET", "/admin/users", None),
    ("POST", "/admin/users", {"name": "bert", "tier": "free"}),
]


def assert_outdated(answer: httpx.Response) -> None:
    document = answer.json()
    problem = document.get("error", document)  # below /v1: the error object of OpenAI's API
    assert (answer.status_code, problem["code"]) == (503, "database_outdated"), answer.request.url
    assert "`beacon-runner migrate`" in problem.get("detail", problem.get("message"))
    assert int(answer.headers["retry-after"]) >= 1


async def test_every_route_with_a_key_reports_the_missing_migration(
    empty_database_url: str, redis_url: str
) -> None:
    async with api_harness(empty_database_url, redis_url) as api:
        for method, path in await operations_with_key(api):
            assert_outdated(await api.caller("bk_any").http.request(method, path, content=b"{"))


@pytest.mark.parametrize(("path", "body", "headers"), SUBMISSIONS)
async def test_submissions_to_an_earlier_version_wait_for_the_migration(
    empty_database_url: str, redis_url: str, path: str, body: Any, headers: dict[str, str]
) -> None:
    await migrate.upgrade(empty_database_url)
    async with api_harness(empty_database_url, redis_url) as api:
        await api.store.database.execute(MAKE_OUTDATED)
        for caller in (await api.user(), await api.admin()):  # with limits, and without
            assert_outdated(await caller.http.post(path, json=body, headers=headers))
        await api.store.database.execute(MAKE_CURRENT)
        for caller in (await api.user("carl"), await api.user("dora")):
            await caller.post(path, body, 202, **headers)


async def test_no_route_breaks_on_an_earlier_version(empty_database_url: str, redis_url: str) -> None:
    """Each route works there or reports the missing migration; after the migration each works."""
    await migrate.upgrade(empty_database_url)
    async with api_harness(empty_database_url, redis_url) as api:
        root = await api.admin()
        await api.store.database.execute(MAKE_OUTDATED)

        async def ask() -> list[httpx.Response]:
            return [await root.http.request(method, path, json=body) for method, path, body in OTHERS]

        for answer in await ask():
            if answer.status_code >= 500:
                assert_outdated(answer)
        await api.store.database.execute(MAKE_CURRENT)
        assert {answer.status_code for answer in await ask()} <= {200, 201, 202, 400, 404, 409}


async def test_a_missing_function_is_reported_too(empty_database_url: str, redis_url: str) -> None:
    await migrate.upgrade(empty_database_url)
    async with api_harness(empty_database_url, redis_url) as api:
        anna = await api.user()
        await api.store.database.execute("ALTER FUNCTION gpu_seconds_today RENAME TO gpu_seconds")
        assert_outdated(await anna.http.get("/api/v1/me"))
        assert_outdated(await anna.http.post("/api/v1/jobs", json=GENERATION))


async def test_readiness_names_the_missing_migration(empty_database_url: str, redis_url: str) -> None:
    async with api_harness(empty_database_url, redis_url) as api:
        parts = (await api.caller(None).get("/readyz", 503))["parts"]
        assert (parts["postgres"], parts["migrations"]) == ("ok", "never run: `beacon-runner migrate`")
        await migrate.upgrade(empty_database_url)
        await api.store.database.execute(MAKE_OUTDATED)
        parts = (await api.caller(None).get("/readyz", 503))["parts"]
        assert parts["migrations"] == f"at 0000, this needs {head()}: `beacon-runner migrate`"
        await api.store.database.execute(MAKE_CURRENT)
        assert (await api.caller(None).get("/readyz"))["ready"] is True
