"""The audit log: every change by an operator has an entry, and none can be changed."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from beacon_contracts.audit import AuditAction
from tests.fixtures.webhook_receiver import LOOPBACK
from tests.integration.runner_api.harness import GENERATION, ApiHarness, Caller, api_harness

AUDIT = "/admin/audit"
URL = "http://127.0.0.1:9/a-token-of-the-receiver"
CHANGES = {"post", "put", "patch", "delete"}

Change = Callable[[ApiHarness, Caller, Caller], Awaitable[Any]]


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiHarness]:
    async with api_harness(database_url, redis_url, webhook_networks=LOOPBACK) as harness:
        yield harness


async def user_of(caller: Caller) -> str:
    return f"/admin/users/{(await caller.get('/api/v1/me'))['user_id']}"


async def webhook_of(caller: Caller) -> str:
    return f"/api/v1/webhooks/{(await caller.post('/api/v1/webhooks', {'url': URL}, 201))['id']}"


async def add_user(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await admin.post("/admin/users", {"name": "bert"}, 201)


async def change_user(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await admin.post(await user_of(anna), {"tier": "free", "disabled": True})


async def change_credit(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await admin.post(f"{await user_of(anna)}/credit", {"amount": 5, "note": "a gift"})


async def add_key(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await admin.post(f"{await user_of(anna)}/keys", {"name": "second"}, 201)


async def revoke_key(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    keys = f"{await user_of(anna)}/keys"
    made = await admin.post(keys, {"name": "second"}, 201)
    return (await admin.http.delete(f"{keys}/{made['id']}")).raise_for_status()


async def dead_job(api: ApiHarness, anna: Caller) -> str:
    job = await anna.submit(GENERATION)
    await api.run("never")
    return job


async def purge(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await admin.post("/admin/queue-dead/purge", {"job_ids": [await dead_job(api, anna)]})


async def requeue(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    await dead_job(api, anna)
    return await admin.post("/admin/queue-dead/requeue", {"all": True})


async def pause(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await admin.post("/admin/queues/low/pause")


async def resume(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await admin.post("/admin/queues/low/resume")


async def reset_lanes(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await admin.post("/admin/lanes/reset")


async def create_webhook(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await webhook_of(admin)


async def change_webhook(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await admin.post(await webhook_of(anna), {"disabled": True})


async def rotate_webhook(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await admin.post(f"{await webhook_of(anna)}/rotate")


async def delete_webhook(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return (await admin.http.delete(await webhook_of(anna))).raise_for_status()


async def cancel_job(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await admin.post(f"/api/v1/jobs/{await anna.submit(GENERATION)}/cancel")


async def exhausted_job(api: ApiHarness, anna: Caller) -> str:
    """A failed job with a retryable failure."""
    job = await anna.submit(GENERATION)
    await api.run("later")
    await api.store.database.execute("UPDATE jobs SET state = 'failed', finished_at = now()")
    return job


async def resume_job(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await admin.post(f"/api/v1/jobs/{await exhausted_job(api, anna)}/resume", status=202)


async def skip_job(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    await admin.post(f"{await user_of(admin)}/credit", {"amount": 50})
    return await admin.post(f"/api/v1/jobs/{await anna.submit(GENERATION)}/skip")


async def retry_execution(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    job = await anna.submit(GENERATION)
    await api.run("later")
    execution = (await anna.job(job))["executions"][0]["id"]
    return await admin.post(f"/api/v1/executions/{execution}/retry-question", status=202)


async def delete_job(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    job = await anna.submit(GENERATION)
    await anna.post(f"/api/v1/jobs/{job}/cancel")
    return (await admin.http.delete(f"/api/v1/jobs/{job}")).raise_for_status()


async def change_jobs(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    body = {"action": "cancel", "job_ids": [await anna.submit(GENERATION)]}
    return await admin.post("/api/v1/jobs/bulk", body, 202)


async def delete_file(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    file = (await anna.http.post("/api/v1/files", content=b"a cat")).raise_for_status().json()["id"]
    return (await admin.http.delete(f"/api/v1/files/{file}")).raise_for_status()


async def delete_user(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return (await admin.http.delete(await user_of(anna))).raise_for_status()


async def configured(api: ApiHarness, admin: Caller, method: str, path: str, body: Any = None) -> Any:
    await api.configure()
    return (await admin.http.request(method, f"/admin/{path}", json=body)).raise_for_status()


async def put_config(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    document = await api.configure()
    document["groups"]["modal"]["cap"] = 9
    answer = await admin.http.put("/admin/config", json=document, headers={"if-match": '"1"'})
    return answer.raise_for_status()


async def roll_back_config(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    await put_config(api, admin, anna)
    return await admin.post("/admin/config/rollback", {"revision": 1})


async def add_backend(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    new = {"name": "us-2", "region": "US", "dialect": "openai", "url": "http://gpu", "models": ["flux"]}
    return await configured(api, admin, "POST", "backends", new)


async def change_backend(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await configured(api, admin, "PATCH", "backends/us-1", {"slots": 2})


async def drain_backend(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await configured(api, admin, "POST", "backends/us-1/drain")


async def resume_backend(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    await drain_backend(api, admin, anna)
    return await admin.post("/admin/backends/us-1/resume")


async def remove_backend(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await configured(api, admin, "DELETE", "backends/asia-1")


async def pause_model(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    return await configured(api, admin, "POST", "models/flux/pause")


async def resume_model(api: ApiHarness, admin: Caller, anna: Caller) -> Any:
    await pause_model(api, admin, anna)
    return await admin.post("/admin/models/flux/resume")


RECORDED: dict[str, tuple[Change, AuditAction]] = {
    "add_user": (add_user, AuditAction.KEY_CREATED),  # after the entry of the user
    "change_user": (change_user, AuditAction.USER_CHANGED),
    "change_credit": (change_credit, AuditAction.CREDIT_CHANGED),
    "add_key": (add_key, AuditAction.KEY_CREATED),
    "revoke_key": (revoke_key, AuditAction.KEY_REVOKED),
    "purge_dead_letters": (purge, AuditAction.DEAD_LETTERS_PURGED),
    "requeue_dead_letters": (requeue, AuditAction.DEAD_LETTERS_REQUEUED),
    "pause_queue": (pause, AuditAction.QUEUE_PAUSED),
    "resume_queue": (resume, AuditAction.QUEUE_RESUMED),
    "reset_lanes": (reset_lanes, AuditAction.LANES_RESET),
    "create_webhook": (create_webhook, AuditAction.WEBHOOK_CREATED),
    "change_webhook": (change_webhook, AuditAction.WEBHOOK_CHANGED),
    "rotate_webhook_secret": (rotate_webhook, AuditAction.WEBHOOK_ROTATED),
    "delete_webhook": (delete_webhook, AuditAction.WEBHOOK_DELETED),
    "cancel_job": (cancel_job, AuditAction.JOB_CANCELLED),
    "resume_job": (resume_job, AuditAction.JOB_RESUMED),
    "skip_job": (skip_job, AuditAction.JOB_SKIPPED),
    "retry_execution": (retry_execution, AuditAction.EXECUTION_RETRIED),
    "delete_job": (delete_job, AuditAction.JOB_DELETED),
    "change_jobs": (change_jobs, AuditAction.BULK_STARTED),
    "delete_file": (delete_file, AuditAction.FILE_DELETED),
    "delete_user": (delete_user, AuditAction.USER_DELETED),
    "put_config": (put_config, AuditAction.CONFIG_CHANGED),
    "roll_back_config": (roll_back_config, AuditAction.CONFIG_ROLLED_BACK),
    "add_backend": (add_backend, AuditAction.BACKEND_ADDED),
    "change_backend": (change_backend, AuditAction.BACKEND_CHANGED),
    "drain_backend": (drain_backend, AuditAction.BACKEND_DRAINED),
    "resume_backend": (resume_backend, AuditAction.BACKEND_RESUMED),
    "remove_backend": (remove_backend, AuditAction.BACKEND_REMOVED),
    "pause_model": (pause_model, AuditAction.MODEL_PAUSED),
    "resume_model": (resume_model, AuditAction.MODEL_RESUMED),
}
# They make new things of the user's own, and change no setting.
NOT_RECORDED = {
    "send_test_webhook",
    "replay_webhook_delivery",
    "submit_job",
    "submit_batch",
    "generate",
    "issue_websocket_token",
    "upload_file",
    "sign_file_url",
    "sign_job_files_url",
    "create_chat_completion",
}


async def test_every_route_that_changes_something_is_tested(admin: Caller) -> None:
    document = await admin.get("/openapi.json")
    changing = {
        operation["operationId"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method in CHANGES
    }
    assert changing == RECORDED.keys() | NOT_RECORDED


@pytest.mark.parametrize("operation", RECORDED)
async def test_a_change_is_recorded(api: ApiHarness, admin: Caller, anna: Caller, operation: str) -> None:
    change, action = RECORDED[operation]
    await change(api, admin, anna)
    page = await admin.get(AUDIT)
    newest = page["entries"][0]
    me = await admin.get("/api/v1/me")
    key = admin.http.headers["authorization"].removeprefix("Bearer ")
    assert (newest["action"], newest["actor"]["user_id"]) == (action, me["user_id"])
    assert key.startswith(newest["actor"]["key"])
    assert len(newest["actor"]["key"]) < len(key) / 2
    shown = str(page)
    assert "whsec_" not in shown
    assert "a-token-of-the-receiver" not in shown
    assert key not in shown


async def test_users_record_their_own_changes(admin: Caller, anna: Caller) -> None:
    webhook = await webhook_of(anna)
    (entry,) = (await admin.get(AUDIT, action="webhook.created"))["entries"]
    assert entry["actor"]["name"] == "anna"
    assert entry["target"] == webhook.rpartition("/")[2]
    assert entry["details"]["host"] == "127.0.0.1"


async def test_users_own_jobs_are_not_recorded(admin: Caller, anna: Caller) -> None:
    before = await admin.get(AUDIT)
    await anna.post(f"/api/v1/jobs/{await anna.submit(GENERATION)}/cancel")
    assert await admin.get(AUDIT) == before


async def test_the_name_of_a_deleted_user_is_gone(admin: Caller, anna: Caller) -> None:
    await webhook_of(anna)
    await admin.post(f"{await user_of(anna)}/keys", {"name": "anna's laptop"}, 201)
    await admin.post(f"{await user_of(anna)}/credit", {"amount": 5, "note": "for anna"})
    (await admin.http.delete(await user_of(anna))).raise_for_status()
    page = await admin.get(AUDIT)
    assert "webhook.created" in str(page)
    assert "anna" not in str(page)


async def test_a_refused_change_has_no_entry(admin: Caller, anna: Caller) -> None:
    before = await admin.get(AUDIT)
    await admin.post(f"{await user_of(anna)}/credit", {"amount": -5}, 409)
    await admin.post("/admin/users", {"name": "anna"}, 409)
    await admin.post(await user_of(anna), {"tier": "emperor"}, 422)
    await anna.post("/admin/queues/low/pause", status=403)
    assert await admin.get(AUDIT) == before


async def test_entries_are_filtered_and_paged(admin: Caller, anna: Caller) -> None:
    for amount in range(1, 6):
        await admin.post(f"{await user_of(anna)}/credit", {"amount": amount})
    path, cursor, found = AUDIT, None, []
    while True:
        wanted: dict[str, Any] = {"action": "user.credit_changed", "limit": 2}
        page = await admin.get(path, **(wanted | ({"cursor": cursor} if cursor else {})))
        found += page["entries"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [one["details"]["amount"] for one in found] == [5, 4, 3, 2, 1]
    me, target = await admin.get("/api/v1/me"), found[0]["target"]
    assert len((await admin.get(path, actor=me["user_id"], target=target))["entries"]) == 5
    assert (await admin.get(path, actor=target))["entries"] == []
    later = await admin.get(path, since=found[1]["at"], action="user.credit_changed")
    assert [one["details"]["amount"] for one in later["entries"]] == [5, 4]
    earlier = await admin.get(path, until=found[3]["at"], action="user.credit_changed")
    assert [one["details"]["amount"] for one in earlier["entries"]] == [1]


@pytest.mark.parametrize(
    "wanted",
    [
        {"actor": "anna"},
        {"since": "yesterday"},
        {"since": "2026-01-01T00:00:00"},
        {"cursor": "x"},
        {"action": "A"},
        {"user": "x"},
    ],
)
async def test_an_invalid_filter_is_refused(admin: Caller, wanted: dict[str, str]) -> None:
    await admin.get(AUDIT, 422, **wanted)


async def test_only_administrators_read_it(anna: Caller) -> None:
    await anna.get(AUDIT, 403)


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit_log SET action = 'x'", "DELETE FROM audit_log", "TRUNCATE audit_log"],
)
async def test_entries_cannot_be_changed(api: ApiHarness, admin: Caller, statement: str) -> None:
    before = await admin.get(AUDIT)
    assert before["entries"]
    with pytest.raises(asyncpg.RaiseError, match="append-only"):
        await api.store.database.execute(statement)
    assert await admin.get(AUDIT) == before
