"""Deletion of users: their data goes, the sums of usage and the ledger stay without what names them."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from beacon_contracts.ids import KEY, USER, UserId, decode_id
from beacon_files import open_store
from beacon_lifecycle import ManualClock
from beacon_runner.maintenance.file_cleanup import FileCleanup
from beacon_runner.postgres.accounts.usage import PostgresUsage
from beacon_runner.postgres.files import PostgresFiles
from tests.fixtures.webhook_receiver import LOOPBACK
from tests.integration.runner_api.accounts.test_usage import PERIOD
from tests.integration.runner_api.harness import GENERATION, ApiHarness, Caller, api_harness
from tests.integration.runner_api.operators.test_operations_on_jobs import failed, finish, runner
from tests.integration.runner_api.resources import SECRET, resources
from tests.integration.runner_store.harness import new_job

USED = """
INSERT INTO usage_records (user_id, key_id, run_s, model, region, tags) VALUES ($1, $2, 1.5, 'flux', 'US', $3)
"""
# Other processes no longer know its keys.
LATER = "UPDATE users SET deleted_at = deleted_at - interval '1 minute'"


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiHarness]:
    async with api_harness(database_url, redis_url, webhook_networks=LOOPBACK) as harness:
        yield harness


async def test_no_table_has_anything_of_a_deleted_user(api: ApiHarness, anna: Caller, admin: Caller) -> None:
    ids = await resources(api, anna, admin)
    user, key = decode_id(USER, ids["user_id"]), decode_id(KEY, ids["key_id"])
    for _ in range(2):
        await api.store.database.execute(USED, user, key, [SECRET])
    await PostgresUsage(api.store.database).roll_up(1)
    assert len(await tables_with(api, SECRET)) > 5
    sums = await admin.get("/admin/usage", **PERIOD, user=ids["user_id"])
    answer = await admin.http.delete(f"/admin/users/{ids['user_id']}")
    await api.store.database.execute(LATER)
    await finish(api, admin, answer.json())
    cleanup = FileCleanup(
        PostgresFiles(api.store.database), open_store(api.files), ManualClock(datetime.now(UTC))
    )
    while (await cleanup.run_once()).more:
        pass
    assert await tables_with(api, SECRET) == []
    assert sums["rows"][0]["runs"] > 0
    assert await admin.get("/admin/usage", **PERIOD, user=ids["user_id"]) == sums
    usage = await admin.get("/admin/usage", **PERIOD, user=ids["user_id"], group_by=["key", "tag"])
    assert [(row["key_id"], row["tag"]) for row in usage["rows"]] == [(None, None)]


async def tables_with(api: ApiHarness, text: str) -> list[str]:
    database = api.store.database
    names = await database.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return [
        name
        for (name,) in names
        if await database.fetchval(f"SELECT EXISTS (SELECT FROM {name} t WHERE t::text LIKE $1)", f"%{text}%")
    ]


async def test_a_job_that_another_process_still_accepted_is_deleted(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    """It knows the key for some seconds. The job would otherwise wait forever, and the operation for it."""
    user_id = (await anna.get("/api/v1/me"))["user_id"]
    user = UserId(decode_id(USER, user_id))
    operation = (await admin.http.delete(f"/admin/users/{user_id}")).json()
    assert not (await runner(api).run_once()).more, "it waits until no process knows the key"
    await api.store.submissions.submit([new_job(user=user)])
    assert await api.claim() == []
    await api.store.database.execute(LATER)
    assert (await finish(api, admin, operation))["changed"] == 1
    assert await api.store.database.fetchval("SELECT count(*) FROM jobs") == 0


async def test_a_user_is_deleted_with_all_data_but_an_anonymous_ledger(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    user = (await anna.get("/api/v1/me"))["user_id"]
    await admin.post(f"/admin/users/{user}/credit", {"amount": 5, "note": "for Anna Example"})
    done = await failed(api, anna, GENERATION, "a cat")
    jobs = [done] + [await anna.submit(GENERATION | {"tags": ["x"]}) for _ in range(3)]
    running = (await api.claim())[0]
    answer = await admin.http.delete(f"/admin/users/{user}")
    assert answer.status_code == 202, answer.text
    operation = answer.json()
    await anna.get("/api/v1/me", 401)
    await admin.get(f"/admin/users/{user}", 404)
    assert (await admin.http.delete(f"/admin/users/{user}")).status_code == 404
    await admin.post("/admin/users", {"name": "anna"}, 201)  # the name is free

    for _ in range(5):
        await runner(api).run_once()
    path = f"/api/v1/operations/{operation['operation_id']}"
    assert (await admin.get(path))["state"] == "running", "one of its jobs may still run at a router"
    await api.store.cancels.settle(running.id, running.fence + 1, [])
    await api.store.database.execute(LATER)
    done_operation = await finish(api, admin, operation)
    assert done_operation["changed"] == 4
    for job_id in jobs:
        await admin.get(f"/api/v1/jobs/{job_id}", 404)
    (row,) = await api.store.database.fetch("SELECT note, job_id FROM credit_ledger")
    assert tuple(row) == ("", None)
    names = [one["name"] for one in (await admin.get("/admin/users"))["users"]]
    assert sorted(names) == ["anna", "root"]


async def test_administrators_do_not_delete_themselves(admin: Caller) -> None:
    user = (await admin.get("/api/v1/me"))["user_id"]
    answer = await admin.http.delete(f"/admin/users/{user}")
    assert (answer.status_code, answer.json()["code"]) == (409, "own_user")
