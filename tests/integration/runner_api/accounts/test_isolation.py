"""Every route of the API, with the key of another user: nothing is seen or changed."""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from beacon_runner.maintenance.operations import OperationRunner
from beacon_runner.postgres.jobs.operations import PostgresOperations
from beacon_runner.redis_queue import Layout, RedisQueueAdmin
from tests.fixtures.webhook_receiver import LOOPBACK
from tests.integration.runner_api.harness import GENERATION, ApiHarness, Caller, api_harness
from tests.integration.runner_api.resources import SECRET, resources

UNKNOWN = {
    "job_id": "unknown_job",
    "execution_id": "unknown_job",
    "operation_id": "unknown_operation",
    "file_id": "unknown_file",
    "webhook_id": "unknown_webhook",
    "delivery_id": "unknown_webhook",
}
SIGNED = {"expires": 4_000_000_000, "signature": "x" * 43}


@dataclass(frozen=True)
class Attempt:
    """A request of another user; `empty`: a list of the response that must have no entries."""

    status: int
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    empty: str | None = None


Ids = Mapping[str, str]
Attempts = Callable[[Ids], list[Attempt]]

# The routes without the id of a resource in their path, and not of operators.
OTHERS: dict[str, Attempts] = {
    "create_chat_completion": lambda _: [Attempt(400, {})],
    "list_chat_models": lambda _: [Attempt(200)],
    "get_chat_model": lambda _: [Attempt(200)],
    "submit_job": lambda ids: [
        Attempt(202, GENERATION, headers={"idempotency-key": SECRET}),  # a key of another user is another key
        Attempt(422, {"kind": "generation", "model": "flux", "input": {"image": {"file": ids["file_id"]}}}),
    ],
    "submit_batch": lambda ids: [
        Attempt(
            422,
            {"jobs": [{"kind": "generation", "model": "flux", "input": {"image": {"file": ids["file_id"]}}}]},
        )
    ],
    "generate": lambda _: [Attempt(202, {"model": "flux", "prompt": "a cat"})],
    "list_jobs": lambda ids: [
        Attempt(200, query={"tag": SECRET}, empty="jobs"),
        Attempt(200, query={"name": SECRET}, empty="jobs"),
        Attempt(200, query={"metadata": f"team={SECRET}"}, empty="jobs"),
        Attempt(200, query={"cursor": ids["newest"], "status": "failed"}, empty="jobs"),
        Attempt(403, query={"user": ids["user_id"]}),
        Attempt(403, query={"all_users": True}),
    ],
    "get_queue_status": lambda _: [Attempt(200)],
    "explore_queue": lambda _: [Attempt(200)],
    "get_status": lambda _: [Attempt(200)],
    "issue_websocket_token": lambda ids: [Attempt(404, {"job_id": ids["job_id"]})],
    "upload_file": lambda _: [Attempt(201, {"a": "file"})],
    "list_files": lambda ids: [Attempt(200, query={"cursor": ids["file_id"]}, empty="files")],
    "create_webhook": lambda _: [Attempt(422, {"url": "http://10.0.0.1/"})],
    "list_webhooks": lambda ids: [
        Attempt(200, empty="webhooks"),
        Attempt(403, query={"user": ids["user_id"]}),
    ],
    "change_jobs": lambda ids: [
        *(
            Attempt(202, {"action": action, "job_ids": [ids["job_id"], ids["newest"]]})
            for action in ("cancel", "resume", "retry", "delete")
        ),
        Attempt(202, {"action": "delete", "filter": {"tag": [SECRET]}}),
        Attempt(403, {"action": "cancel", "filter": {"user": ids["user_id"]}}),
        Attempt(403, {"action": "cancel", "filter": {"all_users": True, "kind": "generation"}}),
    ],
    "list_models": lambda _: [Attempt(200)],
    "list_features": lambda _: [Attempt(200)],
    "list_regions": lambda _: [Attempt(200)],
    "list_tiers": lambda _: [Attempt(200)],
    "get_skip_pricing": lambda _: [Attempt(200)],
    "get_me": lambda _: [Attempt(200)],
    "get_own_ledger": lambda _: [Attempt(200, empty="entries")],
    "get_usage": lambda ids: [
        Attempt(200, query={"group_by": ["user", "tag"]}, empty="rows"),
        Attempt(422, query={"user": ids["user_id"]}),
    ],
    "get_health": lambda _: [Attempt(200)],
    "get_readiness": lambda _: [Attempt(200)],
    # Without a key: an address is valid only with its signature.
    "get_signed_job_files": lambda _: [Attempt(404, query=SIGNED)],
    "get_signed_file": lambda _: [Attempt(404, query=SIGNED)],
}


@pytest.fixture
async def api(database_url: str, redis_url: str) -> AsyncIterator[ApiHarness]:
    async with api_harness(database_url, redis_url, webhook_networks=LOOPBACK) as harness:
        yield harness


async def test_nothing_of_a_user_is_seen_or_changed_by_another(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    ids = await resources(api, anna, admin)
    before = await everything_of(anna, ids)
    assert SECRET in str(before)
    bert = await api.user("bert", "admin")
    paths = (await bert.get("/openapi.json"))["paths"]
    tested = set()
    for path, operations in paths.items():
        for method, operation in operations.items():
            name = operation["operationId"]
            tested.add(name)
            for attempt in attempts(name, path, ids):
                answer = await bert.http.request(
                    method,
                    re.sub("{(.*?)}", lambda found: ids.get(found[1], "1"), path),
                    json=attempt.body,
                    params=dict(attempt.query),
                    headers=dict(attempt.headers),
                )
                assert answer.status_code == attempt.status, f"{name}: {answer.text}"
                assert SECRET not in answer.text, name
                if attempt.empty is not None:
                    assert answer.json()[attempt.empty] == [], name
                if attempt.status == 404:
                    code = next((UNKNOWN[part] for part in UNKNOWN if f"{{{part}}}" in path), "unknown_job")
                    expected = {"unknown_file", code} if "/files/" in path and name in OTHERS else {code}
                    assert answer.json()["code"] in expected, name
    assert tested >= OTHERS.keys(), "routes that no longer exist"
    operations_runner = OperationRunner(
        PostgresOperations(api.store.database),
        RedisQueueAdmin(api.redis, Layout()),
        lambda: None,
        lambda: 3_600,
    )
    while (await operations_runner.run_once()).more:
        pass
    assert await everything_of(anna, ids) == before
    assert SECRET not in (await bert.http.get("/metrics")).text


def attempts(name: str, path: str, ids: Ids) -> list[Attempt]:
    """By the route's path; a route that none of the rules knows has to be added to `OTHERS`."""
    if name in OTHERS:
        return OTHERS[name](ids)
    if path.startswith("/admin/"):
        return [Attempt(403), Attempt(403, {"user": ids["user_id"]})]
    assert UNKNOWN.keys() & set(re.findall("{(.*?)}", path)), f"{name} is not tested: add it to OTHERS"
    if name == "change_webhook":
        return [Attempt(404, {"disabled": True}), Attempt(404, {"url": "http://127.0.0.1:9/"})]
    if name == "get_job_events":
        return [Attempt(404), Attempt(404, headers={"accept": "text/event-stream"})]
    return [Attempt(404)]


async def everything_of(anna: Caller, ids: Ids) -> list[Any]:
    """What its user sees of all that."""
    paths = [
        *(
            f"/api/v1/jobs/{ids[job]}/{part}"
            for job in ("job_id", "newest")
            for part in ("executions", "events")
        ),
        f"/api/v1/operations/{ids['operation_id']}",
        f"/api/v1/files/{ids['file_id']}",
        "/api/v1/webhooks",
        f"/api/v1/webhooks/{ids['webhook_id']}/deliveries",
        "/api/v1/jobs",
        "/api/v1/files",
        "/api/v1/me/ledger",
        "/api/v1/usage?group_by=tag",
    ]
    return [await anna.get(path) for path in paths]
