"""Operations on many jobs, and deletions of jobs and users."""

import asyncio
from typing import Any

import pytest

from beacon_contracts.audit import AuditAction
from beacon_contracts.ids import decode_job_id
from beacon_runner.maintenance.operations import OperationRunner
from beacon_runner.postgres.jobs.operations import PostgresOperations
from beacon_runner.redis_queue import Layout, RedisQueueAdmin
from tests.integration.runner_api.harness import GENERATION, MATRIX, ApiHarness, Caller

BULK = "/api/v1/jobs/bulk"


def runner(api: ApiHarness, batch: int = 2) -> OperationRunner:
    queue = RedisQueueAdmin(api.redis, Layout())
    return OperationRunner(PostgresOperations(api.store.database), queue, lambda: None, lambda: 3600.0, batch)


async def finish(api: ApiHarness, caller: Caller, operation: dict[str, Any]) -> dict[str, Any]:
    """The operation after the relay has done it."""
    while (await runner(api).run_once()).more:
        pass
    found: dict[str, Any] = await caller.get(f"/api/v1/operations/{operation['operation_id']}")
    assert found["state"] == "finished"
    return found


async def bulk(api: ApiHarness, caller: Caller, action: str, **selection: Any) -> tuple[int, int]:
    """How many jobs were matched and changed."""
    operation = await caller.post(BULK, {"action": action, **selection}, 202)
    done = await finish(api, caller, operation)
    return done["matched"], done["changed"]


async def states(caller: Caller, jobs: list[str]) -> list[str]:
    return [(await caller.job(job))["status"] for job in jobs]


async def failed(api: ApiHarness, caller: Caller, body: dict[str, Any], *outcomes: str) -> str:
    """A job that has ended with these outcomes."""
    job_id = await caller.submit(body)
    await api.run(*outcomes)
    return job_id


async def test_all_jobs_of_a_filter_are_cancelled(api: ApiHarness, anna: Caller) -> None:
    tagged = [await anna.submit(GENERATION | {"tags": ["old"]}) for _ in range(5)]
    other = await anna.submit(GENERATION)
    bert = await api.user("bert")
    berts = await bert.submit(GENERATION | {"tags": ["old"]})
    (claimed,) = await api.claim()
    operation = await anna.post(BULK, {"action": "cancel", "filter": {"tag": ["old"]}}, 202)
    assert (operation["state"], operation["matched"], operation["total"]) == ("running", 0, None)
    await bert.get(f"/api/v1/operations/{operation['operation_id']}", 404)
    later = await anna.submit(GENERATION | {"tags": ["old"]})
    done = await finish(api, anna, operation)
    assert (done["matched"], done["changed"]) == (5, 5)
    assert await states(anna, [*tagged, other, later]) == ["cancelled"] * 5 + ["queued"] * 2
    assert (await bert.job(berts))["status"] == "queued"
    assert {cancel.job for cancel in await api.store.cancels.take(10)} == {claimed.id}
    assert len(await api.claim(20)) == 3, "the messages of cancelled jobs are removed"


async def test_given_jobs_are_cancelled_and_those_of_others_are_not(api: ApiHarness, anna: Caller) -> None:
    mine = [await anna.submit(GENERATION) for _ in range(3)]
    theirs = await (await api.user("bert")).submit(GENERATION)
    assert await bulk(api, anna, "cancel", job_ids=[*mine, theirs, mine[0]]) == (3, 3)
    assert await states(anna, mine) == ["cancelled"] * 3
    assert len(await api.claim(10)) == 1


async def test_failed_jobs_are_resumed_or_retried(api: ApiHarness, anna: Caller, admin: Caller) -> None:
    await api.store.database.execute("SELECT 1")
    permanent = await failed(api, anna, MATRIX, "a", "never", "c", "d")
    completed = await failed(api, anna, GENERATION, "a cat")
    assert await bulk(api, anna, "resume", filter={"status": ["partial", "completed"]}) == (2, 0)
    assert await bulk(api, anna, "retry", filter={"status": ["partial", "completed"]}) == (2, 1)
    assert await states(anna, [permanent, completed]) == ["queued", "completed"]
    await api.run("b")
    assert (await anna.job(permanent))["status"] == "completed"


async def test_ended_jobs_are_deleted_with_all_that_belongs_to_them(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    dead = await failed(api, anna, MATRIX | {"tags": ["old"]}, "a", "never", "c", "d")
    live = await anna.submit(GENERATION | {"tags": ["old"]})
    await api.publish()
    assert await api.redis.llen("jobs:dead") == 1
    assert await bulk(api, anna, "delete", filter={"tag": ["old"]}) == (2, 1)
    await anna.get(f"/api/v1/jobs/{dead}", 404)
    assert (await anna.job(live))["status"] == "queued"
    assert await api.redis.llen("jobs:dead") == 0
    for table in ("executions", "job_events", "dead_letters"):
        rows = await api.store.database.fetch(f"SELECT 1 FROM {table} WHERE job_id = $1", decode_job_id(dead))
        assert rows == [], table
    assert [job["job_id"] for job in (await anna.get("/api/v1/jobs", tag="old"))["jobs"]] == [live]


async def test_a_job_is_deleted_after_its_end(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION)
    (claimed,) = await api.claim()
    assert (await anna.http.delete(f"/api/v1/jobs/{job_id}")).json()["code"] == "wrong_state"
    api.router.unanswered = ("us",)
    await anna.post(f"/api/v1/jobs/{job_id}/cancel")
    refused = await anna.http.delete(f"/api/v1/jobs/{job_id}")
    assert (refused.status_code, refused.json()["code"]) == (409, "wrong_state"), "it may run at a router"
    await api.store.cancels.settle(claimed.id, claimed.fence + 1, [])
    assert (await anna.http.delete(f"/api/v1/jobs/{job_id}")).status_code == 204
    assert (await anna.http.delete(f"/api/v1/jobs/{job_id}")).status_code == 404


async def test_a_deleted_job_still_counts_for_the_hour(api: ApiHarness) -> None:
    anna = await api.user(tier="free")
    for _ in range(3):
        job_id = await anna.submit(GENERATION)
        await api.run("a cat")
        await anna.http.delete(f"/api/v1/jobs/{job_id}")
    assert (await anna.post("/api/v1/jobs", GENERATION, 429))["code"] == "jobs_per_hour_limit"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"action": "cancel"}, "invalid_field"),
        ({"action": "cancel", "filter": {}}, "empty_filter"),
        ({"action": "cancel", "filter": {"all_users": False}}, "empty_filter"),
        ({"action": "cancel", "filter": {"tag": []}}, "empty_filter"),
        ({"action": "cancel", "filter": {"tags": ["x"]}}, "invalid_field"),
        ({"action": "cancel", "filter": {"kind": "matrix"}, "job_ids": ["job_1"]}, "invalid_field"),
        ({"action": "cancel", "job_ids": []}, "invalid_field"),
        ({"action": "cancel", "job_ids": ["job_1"]}, "invalid_field"),
        ({"action": "pause", "filter": {"kind": "matrix"}}, "invalid_field"),
        ({"action": "cancel", "filter": {"created_after": "2026-01-01T00:00:00"}}, "invalid_field"),
    ],
)
async def test_invalid_bulk_requests_change_nothing(
    api: ApiHarness, anna: Caller, body: dict[str, Any], code: str
) -> None:
    job_id = await anna.submit(GENERATION)
    problem = await anna.post(BULK, body, 422)
    assert code in {problem["code"], *(error["code"] for error in problem["errors"])}
    assert not (await runner(api).run_once()).count
    assert (await anna.job(job_id))["status"] == "queued"


async def test_only_administrators_select_jobs_of_others(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    user = (await anna.get("/api/v1/me"))["user_id"]
    jobs = [await anna.submit(GENERATION) for _ in range(3)]
    bert = await api.user("bert")
    for scope in ({"user": user}, {"all_users": True}):
        problem = await bert.post(BULK, {"action": "cancel", "filter": {"kind": "generation"} | scope}, 403)
        assert problem["code"] == "missing_scope"
    await admin.post(f"/admin/users/{user}", {"disabled": True})
    assert await bulk(api, admin, "cancel", filter={"user": user}) == (3, 3)
    assert await states(admin, jobs) == ["cancelled"] * 3
    assert (await admin.post(BULK, {"action": "delete", "filter": {"all_users": True}}, 422))["errors"][0][
        "code"
    ] == "empty_filter"


async def test_an_interrupted_step_is_repeated_whole(
    api: ApiHarness, anna: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay dies between changing the jobs and storing the progress; two relays continue at once."""
    jobs = [await anna.submit(GENERATION) for _ in range(5)]
    operation = await anna.post(BULK, {"action": "cancel", "filter": {"kind": "generation"}}, 202)
    assert (await runner(api).run_once()).count == 2
    with monkeypatch.context() as patch:

        async def killed(*_: object) -> None:
            raise asyncio.CancelledError

        patch.setattr("beacon_runner.postgres.jobs.operations._apply", killed)
        with pytest.raises(asyncio.CancelledError):
            await runner(api).run_once()
    found = await anna.get(f"/api/v1/operations/{operation['operation_id']}")
    assert (found["state"], found["changed"]) == ("running", 2)
    await asyncio.gather(runner(api).run_once(), runner(api).run_once())
    done = await finish(api, anna, operation)
    assert (done["matched"], done["changed"]) == (5, 5)
    assert await states(anna, jobs) == ["cancelled"] * 5


async def test_operations_take_turns(api: ApiHarness, anna: Caller) -> None:
    bert = await api.user("bert")
    many = [await anna.submit(GENERATION) for _ in range(6)]
    few = await bert.submit(GENERATION)
    await anna.post(BULK, {"action": "cancel", "filter": {"kind": "generation"}}, 202)
    await bert.post(BULK, {"action": "cancel", "filter": {"kind": "generation"}}, 202)
    for _ in range(2):
        await runner(api).run_once()
    assert (await bert.job(few))["status"] == "cancelled"
    assert "queued" in await states(anna, many)


async def test_the_audit_log_has_the_filter_without_texts(anna: Caller, admin: Caller) -> None:
    chosen = {"status": ["queued"], "tag": ["anna's tag"], "name": "anna's name", "model": "flux"}
    await anna.post(BULK, {"action": "cancel", "filter": chosen}, 202)
    (entry,) = (await admin.get("/admin/audit", action=AuditAction.BULK_STARTED))["entries"]
    assert entry["details"]["filter"] == {
        "status": ["queued"],
        "tag": "given",
        "name": "given",
        "model": "flux",
    }


async def test_the_key_of_a_deleted_job_is_free(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION, **{"idempotency-key": "one"})
    await api.run("a cat")
    (await anna.http.delete(f"/api/v1/jobs/{job_id}")).raise_for_status()
    assert await anna.submit(GENERATION, **{"idempotency-key": "one"}) != job_id


async def test_concurrent_operations_change_each_job_once(api: ApiHarness, anna: Caller) -> None:
    """Cancel and delete of the same jobs, each twice, by four processes."""
    jobs = [await anna.submit(GENERATION | {"tags": ["x"]}) for _ in range(10)]
    actions = ("cancel", "delete", "cancel", "delete")
    started = [await anna.post(BULK, {"action": action, "filter": {"tag": ["x"]}}, 202) for action in actions]

    async def work() -> None:
        while (await runner(api, 5).run_once()).more:
            pass

    await asyncio.gather(*(work() for _ in actions))
    ended = [await finish(api, anna, operation) for operation in started]
    changed = dict.fromkeys(actions, 0)
    for one in ended:
        changed[one["action"]] += one["changed"]
    left = (await anna.get("/api/v1/jobs"))["jobs"]
    assert changed == {"cancel": 10, "delete": 10 - len(left)}
    assert all(one["status"] == "cancelled" and one["job_id"] in jobs for one in left)
