"""Keys, scopes and revocation. `test_isolation.py` requests every route with the key of another user."""

import asyncio
import re
from typing import Any

import httpx

from beacon_contracts.accounts import Scope
from beacon_contracts.api_keys import public_prefix
from tests.fixtures.waiting import until
from tests.integration.runner_api.harness import GENERATION, ApiHarness, Caller

OPEN = {
    "/healthz",
    "/readyz",
    "/metrics",
    "/queue-status",
    "/status",
    "/api/queue",
    "/files/{file_id}",
    "/files/{job_id}.zip",
}


async def operations_with_key(api: ApiHarness) -> list[tuple[str, str]]:
    """Every operation of the API that needs a key, with parameters that are wrong."""
    paths: dict[str, dict[str, Any]] = (await api.caller(None).http.get("/openapi.json")).json()["paths"]
    return [
        (method.upper(), re.sub("{.*?}", "no-such-thing", path) + "?limit=none&cursor=-&all_users=perhaps")
        for path, operations in paths.items()
        for method in operations
        if path not in OPEN
    ]


def error_code(answer: httpx.Response) -> str:
    """The code of a problem document, or the one that stands for it in an error object of OpenAI."""
    document = answer.json()
    if "error" in document:
        return {"missing_api_key": "missing_key", "invalid_api_key": "unknown_key"}[document["error"]["code"]]
    return str(document["code"])


async def test_every_route_checks_the_key_before_the_request(api: ApiHarness) -> None:
    found = await operations_with_key(api)
    assert len(found) > 30
    for method, path in found:
        for key, code in ((None, "missing_key"), ("bk_wrong", "unknown_key"), ("x" * 5_000, "unknown_key")):
            answer = await api.caller(key).http.request(method, path, content=b"{")
            assert (answer.status_code, error_code(answer)) == (401, code), (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_admin_routes_check_the_scope_before_the_request(api: ApiHarness, anna: Caller) -> None:
    operators = [
        (method, path) for method, path in await operations_with_key(api) if path.startswith("/admin/")
    ]
    assert len(operators) > 10
    for method, path in operators:
        answer = await anna.http.request(method, path, content=b"{")
        assert (answer.status_code, answer.json()["code"]) == (403, "missing_scope"), (method, path)


async def test_a_service_key_reads_the_demand_only(api: ApiHarness) -> None:
    """The key that autoscalers have; requests to routes that it may use fail at their parameters."""
    service = await api.user("svc", "free", Scope.SERVICE)
    allowed = set()
    for method, path in await operations_with_key(api):
        answer = await service.http.request(method, path, content=b"{")
        if answer.status_code != 403:
            allowed.add((method, path.split("?")[0]))
    assert allowed == {("GET", "/admin/demand")}


async def test_both_headers_work(api: ApiHarness) -> None:
    anna = await api.user()
    key = anna.http.headers["authorization"].removeprefix("Bearer ")
    me = await api.caller(None).http.get("/api/v1/me", headers={"X-API-Key": key})
    assert me.json()["name"] == "anna"


async def test_admin_routes_need_the_admin_scope(api: ApiHarness, anna: Caller) -> None:
    for path in ("/admin/runtime/stats", "/admin/queue-dead", "/admin/users", "/api/v1/jobs?all_users=true"):
        answer = await anna.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (403, "missing_scope")
    service = await api.user("svc", "free", Scope.SERVICE)
    assert (await service.http.get("/api/v1/jobs")).status_code == 403


async def test_an_admin_lists_the_jobs_of_all_users(anna: Caller, admin: Caller) -> None:
    job = await anna.submit(GENERATION)
    assert (await admin.job(job))["job_id"] == job
    assert (await admin.get("/api/v1/jobs"))["jobs"] == []
    assert [one["job_id"] for one in (await admin.get("/api/v1/jobs", all_users=True))["jobs"]] == [job]


async def test_a_revoked_key_stops_at_once_and_a_new_one_works(api: ApiHarness, admin: Caller) -> None:
    made = await admin.post("/admin/users", {"name": "carl", "tier": "free"}, 201)
    carl = api.caller(made["key"])
    assert (await carl.get("/api/v1/me"))["tier"] == "free"
    second = await admin.post(f"/admin/users/{made['id']}/keys", {"name": "ci"}, 201)
    (first,) = [
        key for key in (await admin.get(f"/admin/users/{made['id']}/keys"))["keys"] if key["name"] == "first"
    ]
    revoked = await admin.http.delete(f"/admin/users/{made['id']}/keys/{first['id']}")
    assert revoked.json()["revoked_at"] is not None
    assert (await carl.http.get("/api/v1/me")).status_code == 401
    assert (await api.caller(second["key"]).http.get("/api/v1/me")).status_code == 200


async def test_a_key_revoked_by_another_process_stops_within_seconds(api: ApiHarness, anna: Caller) -> None:
    me = await anna.get("/api/v1/me")
    user = next(one for one in await api.users.page(None, 10) if one.name == me["name"])
    (key,) = await api.users.keys(user.id)
    await api.users.revoke(user.id, key.id)
    assert (await anna.http.get("/api/v1/me")).status_code == 200
    await api.clock.advance(6)
    assert (await anna.http.get("/api/v1/me")).status_code == 401


async def test_a_revoked_key_ends_the_streams_that_it_has_opened(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    job, user_id = await anna.submit(GENERATION), (await anna.get("/api/v1/me"))["user_id"]
    stream = anna.http.get(f"/api/v1/jobs/{job}/events", headers={"accept": "text/event-stream"})
    reading = asyncio.create_task(stream)
    await until(lambda: len(api.watchers), "the stream is open")
    (key,) = (await admin.get(f"/admin/users/{user_id}/keys"))["keys"]
    await admin.http.delete(f"/admin/users/{user_id}/keys/{key['id']}")

    async def ended() -> bool:
        await api.clock.advance(6)
        return reading.done()

    await until(ended, "the stream has ended")
    last = (await reading).text.strip().rpartition("event: ")[2]
    assert last.startswith("STREAM_END")
    assert '"unknown_key"' in last


async def test_a_disabled_user_s_keys_do_not_work_until_enabled(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    user_id = (await anna.get("/api/v1/me"))["user_id"]
    await admin.post(f"/admin/users/{user_id}", {"disabled": True})
    assert (await anna.http.get("/api/v1/me")).status_code == 401
    await admin.post(f"/admin/users/{user_id}", {"disabled": False, "tier": "creator"})
    assert (await anna.get("/api/v1/me"))["tier"] == "creator"


async def test_keys_are_stored_as_hashes_only(api: ApiHarness, anna: Caller) -> None:
    key = anna.http.headers["authorization"].removeprefix("Bearer ")
    user = next(one for one in await api.users.page(None, 10) if one.name == "anna")
    (stored,) = await api.users.keys(user.id)
    assert stored.hint == public_prefix(key)


async def test_credit_is_added_and_subtracted_but_never_below_zero(anna: Caller, admin: Caller) -> None:
    user_id = (await anna.get("/api/v1/me"))["user_id"]
    assert (await admin.post(f"/admin/users/{user_id}/credit", {"amount": 10, "note": "gift"}))[
        "credit"
    ] == 10
    assert (await admin.post(f"/admin/users/{user_id}/credit", {"amount": -4}))["credit"] == 6
    for no_number in ("1", True, 1.5, None):
        await admin.post(f"/admin/users/{user_id}/credit", {"amount": no_number}, 422)
    refused = await admin.post(f"/admin/users/{user_id}/credit", {"amount": -7}, 409)
    assert refused["code"] == "credit_out_of_range"
    await admin.post(f"/admin/users/{user_id}/credit", {"amount": 1_000_000_000})
    await admin.post(f"/admin/users/{user_id}/credit", {"amount": 1_000_000_000})
    await admin.post(f"/admin/users/{user_id}/credit", {"amount": 1_000_000_000}, 409)
    assert (await anna.get("/api/v1/me"))["credit"] == 2_000_000_006


async def test_users_are_listed_in_pages_and_names_are_unique(admin: Caller) -> None:
    for name in ("carl", "anna", "ben"):
        await admin.post("/admin/users", {"name": name}, 201)
    assert (await admin.post("/admin/users", {"name": "ben"}, 409))["code"] == "name_taken"
    first = await admin.get("/admin/users", limit=2)
    second = await admin.get("/admin/users", limit=2, cursor=first["next_cursor"])
    assert [user["name"] for user in first["users"] + second["users"]] == ["anna", "ben", "carl", "root"]
    assert second["next_cursor"] is None
    await admin.get("/admin/users/user_01m7hhdj4nepnvyzhw2e9ya3am", 404)
    await admin.post("/admin/users", {"name": "x", "tier": "gold"}, 422)


async def test_a_key_must_expire_in_the_future(admin: Caller) -> None:
    user_id = (await admin.get("/api/v1/me"))["user_id"]
    for moment in ("2020-01-01T00:00:00Z", "2999-01-01T00:00:00", "9999-12-31T23:59:59-14:00"):
        await admin.post(f"/admin/users/{user_id}/keys", {"expires_at": moment}, 422)
    await admin.post(f"/admin/users/{user_id}/keys", {"expires_at": "2999-01-01T00:00:00Z"}, 201)


async def test_an_operator_sets_the_weight_of_a_user(admin: Caller) -> None:
    made = await admin.post("/admin/users", {"name": "carl", "weight": 2.5}, 201)
    assert made["weight"] == 2.5
    changed = await admin.post(f"/admin/users/{made['id']}", {"weight": 4})
    assert (changed["weight"], changed["tier"]) == (4.0, "free")
    unchanged = await admin.post(f"/admin/users/{made['id']}", {"tier": "premium"})
    assert (unchanged["weight"], unchanged["tier"]) == (4.0, "premium")
    for wrong in (0, -1, 101, "two"):
        refused = await admin.post(f"/admin/users/{made['id']}", {"weight": wrong}, 422)
        assert refused["errors"][0]["field"] == "weight"
