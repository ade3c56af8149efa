"""The live configuration: revisions, validation, stranded work, and what the API does after a change."""

import asyncio
import json
from typing import Any

import pytest

from beacon_config import read_document
from beacon_contracts.configuration import RouterRevision
from beacon_contracts.router_status import BackendStatus, BreakerStatus, QueueStatus, RegionStatus
from beacon_runner.application.configuration import ConfigService
from beacon_runner.ports.router import RouterStatus
from beacon_runner.wiring.configuration import apply_file, file_changed, seed
from tests.integration.runner_api.harness import CONFIG_FILE, GENERATION, ApiHarness, Caller

CONFIG = "/admin/config"
NEW = {"name": "us-2", "region": "US", "dialect": "openai", "url": "http://gpu:8080/v1", "models": ["flux"]}


@pytest.fixture
async def admin(api: ApiHarness) -> Caller:
    await api.configure()
    return await api.admin()


async def put(admin: Caller, document: Any, etag: str | None, status: int = 200, **query: Any) -> Any:
    headers = {} if etag is None else {"if-match": etag}
    answer = await admin.http.put(CONFIG, json=document, headers=headers, params=query)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_the_file_is_the_first_revision(api: ApiHarness, admin: Caller) -> None:
    api.router.revisions = [RouterRevision(url="http://router", revision=1)]
    answer = await admin.http.get(CONFIG)
    assert answer.headers["etag"] == '"1"'
    view = answer.json()
    assert (view["revision"], view["actor"]["name"]) == (1, "system")
    assert list(view["document"]["tiers"]) == ["admin", "creator", "premium", "supporter", "free"]
    (router,) = view["routers"]
    assert (router["url"], router["revision"], router["errors"]) == ("http://router", 1, [])


async def test_two_processes_that_start_together_make_one_first_revision(api: ApiHarness) -> None:
    made = await asyncio.gather(*(seed(api.configurations, CONFIG_FILE) for _ in range(5)))
    assert sorted(made) == [False, False, False, False, True]
    assert await api.configurations.newest_number() == 1


async def test_a_change_needs_the_newest_etag(admin: Caller) -> None:
    document = read_document(CONFIG_FILE)
    assert (await put(admin, document, None, 428))["code"] == "if_match_required"
    refused = await put(admin, document, '"7"', 412)
    assert (refused["code"], refused["revision"]) == ("config_changed", 1)
    document["groups"]["modal"]["cap"] = 3
    assert (await put(admin, document, '"1"'))["revision"] == 2
    assert (await put(admin, document, '"1"', 412))["revision"] == 2


async def test_a_document_may_be_larger_than_a_job(admin: Caller) -> None:
    document = read_document(CONFIG_FILE)
    step = {"name": "one", "model": "flux", "input": {"prompt": "x" * 100_000}}
    document["features"] |= {f"long-{number}": {"steps": [step]} for number in range(20)}
    change = await put(admin, document, '"1"')
    assert change["differences"][0]["key"] == "features.long-0"
    assert (await admin.post("/admin/backends/us-1/drain"))["applied"]


async def test_of_concurrent_changes_one_is_stored(admin: Caller) -> None:
    def document(cap: int) -> Any:
        changed = read_document(CONFIG_FILE)
        changed["groups"]["modal"]["cap"] = cap
        return changed

    answers = await asyncio.gather(
        *(admin.http.put(CONFIG, json=document(cap), headers={"if-match": "1"}) for cap in range(5))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412, 412]


async def test_concurrent_edits_are_all_stored(admin: Caller) -> None:
    names = ["us-1", "us-steps", "eu-1", "asia-1"] * 3
    edits = (
        admin.http.patch(f"/admin/backends/{name}", json={"run_timeout_s": 100 + number})
        for number, name in enumerate(names)
    )
    assert {answer.status_code for answer in await asyncio.gather(*edits)} == {200}
    assert (await admin.get(CONFIG))["revision"] == 1 + len(names)


async def test_an_equal_document_makes_no_revision(admin: Caller) -> None:
    change = await put(admin, read_document(CONFIG_FILE), '"1"')
    assert (change["applied"], change["revision"], change["differences"]) == (False, 1, [])


async def test_each_wrong_key_is_named(admin: Caller) -> None:
    document = read_document(CONFIG_FILE)
    document["backends"]["us-1"] |= {"slots": -1, "speed": 3}
    document["backends"]["eu-1"]["headers"] = {"X-Key": "secret"}
    refused = await put(admin, document, '"1"', 422)
    assert {error["field"] for error in refused["errors"]} == {
        "backends.us-1.slots",
        "backends.us-1.speed",
        "backends.eu-1.headers.X-Key",
    }
    assert "secret" not in str(refused).replace("secret in clear text", "")


@pytest.mark.parametrize(
    "free",
    [
        {"description": "\ud800"},
        {"maximum": 10**40},
        {"const": json.loads('{"a":' * 300 + "1" + "}" * 300)},
        json.loads('{"items":' * 200 + "{}" + "}" * 200),
    ],
    ids=["surrogate", "large number", "deep value", "deep schema"],
)
async def test_a_document_that_cannot_be_stored_is_refused(admin: Caller, free: dict[str, Any]) -> None:
    document = read_document(CONFIG_FILE)
    document["models"]["flux"]["input_schema"] = free
    body, headers = json.dumps(document), {"if-match": '"1"', "content-type": "application/json"}
    answer = await admin.http.put(CONFIG, content=body, headers=headers)
    assert answer.status_code == 422, answer.text


async def test_a_dry_run_shows_the_differences_and_changes_nothing(admin: Caller) -> None:
    document = read_document(CONFIG_FILE)
    document["groups"]["modal"]["cap"] = 0
    document["limits"]["connections"] = 99
    change = await put(admin, document, '"1"', dry_run=True)
    assert change["differences"] == [
        {"key": "groups.modal.cap", "before": 10, "after": 0},
        {"key": "limits.connections", "before": 4096, "after": 99},
    ]
    assert (change["applied"], change["restart_needed"]) == (False, ["limits.connections"])
    assert (await admin.get(CONFIG))["revision"] == 1


async def test_queued_work_is_stranded_only_with_force(admin: Caller, anna: Caller) -> None:
    await anna.submit({"kind": "generation", "model": "music", "prompt": "a song"})
    await anna.submit({**GENERATION, "model": "sdxl", "failover": "pinned"})
    refused = await admin.http.delete("/admin/backends/us-1")
    assert (refused.status_code, refused.json()["code"]) == (409, "work_stranded")
    assert refused.json()["stranded"] == [
        {"model": model, "region": "US", "executions": 1, "jobs": 0} for model in ("music", "sdxl")
    ]
    done = await admin.http.delete("/admin/backends/us-1", params={"force": True})
    assert (done.status_code, done.json()["applied"]) == (200, True)
    assert "music" not in (await admin.get(CONFIG))["document"]["models"]


async def test_jobs_of_a_class_are_not_left_without_a_pool(admin: Caller, anna: Caller) -> None:
    await anna.submit(GENERATION)
    document = read_document(CONFIG_FILE)
    for tier in document["tiers"].values():
        tier["class"] = "low"
    document["pools"] = {"low": {"slots": 5, "classes": ["low"]}}
    refused = await put(admin, document, '"1"', 409)
    assert refused["detail"].startswith("no pool would serve 1 unfinished jobs of class medium")
    assert (await put(admin, document, '"1"', force=True))["applied"]


async def test_work_that_can_move_is_not_stranded(admin: Caller, anna: Caller) -> None:
    await anna.submit({**GENERATION, "model": "sdxl"})
    change = (await admin.http.delete("/admin/backends/us-1", params={"dry_run": True})).json()
    assert change["stranded"] == []


async def test_backends_are_added_changed_drained_and_removed(api: ApiHarness, admin: Caller) -> None:
    await admin.post("/admin/backends", NEW)
    assert (await admin.post("/admin/backends", NEW, 409))["code"] == "name_taken"
    changed = await admin.http.patch("/admin/backends/us-2", json={"slots": 8})
    assert changed.json()["differences"] == [{"key": "backends.us-2.slots", "before": 1, "after": 8}]
    await admin.post("/admin/backends/us-2/drain")
    api.router.statuses = [router_status("us-2", busy=1), router_status("us-2", busy=2)]
    backends = {one["name"]: one for one in (await admin.get("/admin/backends"))["backends"]}
    assert (backends["us-2"]["state"], backends["us-2"]["busy"]) == ("draining", 3)
    assert backends["us-1"]["state"] == "unknown"
    for statuses, state in (
        ([router_status("us-2", busy=0), router_status("us-2", busy=0, slots=0)], "draining"),
        (
            [router_status("us-2", busy=0, slots=0), RouterStatus("http://other", 0, None, "no answer")],
            "draining",
        ),
        ([router_status("us-2", busy=0, slots=0)], "drained"),
    ):
        api.router.statuses = statuses
        backends = {one["name"]: one for one in (await admin.get("/admin/backends"))["backends"]}
        assert backends["us-2"]["state"] == state
    await admin.post("/admin/backends/us-2/resume")
    backends = {one["name"]: one for one in (await admin.get("/admin/backends"))["backends"]}
    assert (backends["us-2"]["state"], backends["us-2"]["drain"]) == ("closed", False)
    assert (await admin.http.delete("/admin/backends/us-2")).json()["revision"] == 6
    assert (await admin.post("/admin/backends/us-2/drain", status=404))["code"] == "unknown_backend"


def router_status(backend: str, *, busy: int, slots: int = 4) -> RouterStatus:
    """`slots`: 0 once the router has applied the drain."""
    status = BackendStatus(
        name=backend, region="US", slots=slots, busy=busy, breaker=BreakerStatus(state="closed")
    )
    region = RegionStatus(
        region="US",
        concurrency=4,
        main=0,
        front=0,
        retry=0,
        completed=0,
        failed=0,
        cancelled=0,
        slots=4,
        busy=busy,
        healthy=True,
        backends=[status],
    )
    queues = QueueStatus(
        regions={"US": region}, global_retry=0, backing_off=0, waiting=0, running=busy, held_bytes=0
    )
    return RouterStatus("http://router", 0, queues)


async def test_new_models_and_regions_come_and_go_with_their_backends(admin: Caller) -> None:
    new = {**NEW, "region": "MARS", "models": ["flux", "rover"]}
    change = await admin.post("/admin/backends", new)
    assert [one["key"] for one in change["differences"]] == ["regions.MARS", "backends.us-2", "models.rover"]
    moved = await admin.http.patch("/admin/backends/us-2", json={"region": "US", "models": ["flux"]})
    assert [one["key"] for one in moved.json()["differences"]] == [
        "regions.MARS",
        "backends.us-2.region",
        "backends.us-2.models",
        "models.rover",
    ]
    wrong = await admin.http.patch("/admin/backends/us-2", json={"region": [1], "models": {"a": 1}})
    assert wrong.status_code == 422
    assert {one["field"] for one in wrong.json()["errors"]} >= {
        "backends.us-2.region",
        "backends.us-2.models",
    }


async def test_a_backend_without_slots_shows_why_it_takes_nothing(admin: Caller) -> None:
    await admin.http.patch("/admin/backends/us-1", json={"slots": 0})
    (found,) = (one for one in (await admin.get("/admin/backends"))["backends"] if one["name"] == "us-1")
    assert found["cause"] == "no_slots"


async def test_simulated_backends_come_from_the_file_of_make_up_only(admin: Caller) -> None:
    refused = await admin.post("/admin/backends", {**NEW, "simulated": True}, 422)
    assert refused["errors"][0]["field"] == "backends.us-2.simulated"


async def test_a_rollback_restores_a_simulated_backend(admin: Caller) -> None:
    await admin.http.delete("/admin/backends/asia-1")
    change = await admin.post(f"{CONFIG}/rollback", {"revision": 1})
    assert change["applied"]
    assert (await admin.get(CONFIG))["document"]["backends"]["asia-1"]["simulated"] is True


async def test_a_paused_model_is_paused_in_the_document(admin: Caller) -> None:
    await admin.post("/admin/models/flux/pause")
    assert (await admin.get(CONFIG))["document"]["models"]["flux"]["paused"] is True
    assert (await admin.post("/admin/models/nothing/pause", status=404))["code"] == "unknown_model"


async def test_a_rollback_is_a_new_revision_in_the_history(admin: Caller) -> None:
    await admin.post("/admin/backends/us-1/drain")
    change = await admin.post(f"{CONFIG}/rollback", {"revision": 1})
    assert change["differences"] == [{"key": "backends.us-1.drain", "before": True, "after": False}]
    page = await admin.get(f"{CONFIG}/revisions", limit=2)
    assert [one["comment"] for one in page["revisions"]] == ["rollback to 1", "backend.drained us-1"]
    older = await admin.get(f"{CONFIG}/revisions", before=page["next_before"])
    assert [(one["revision"], one["actor"]["name"]) for one in older["revisions"]] == [(1, "system")]
    assert (await admin.post(f"{CONFIG}/rollback", {"revision": 9}, 404))["code"] == "unknown_revision"
    drained = await admin.get(f"{CONFIG}/revisions/2")
    assert (drained["comment"], drained["document"]["backends"]["us-1"]["drain"]) == (
        "backend.drained us-1",
        True,
    )
    assert (await admin.get(f"{CONFIG}/revisions/9", 404))["code"] == "unknown_revision"


async def test_the_api_admits_by_the_newest_revision(api: ApiHarness, admin: Caller) -> None:
    free = await api.user("fred", "free")
    document = read_document(CONFIG_FILE)
    document["models"]["tiny"] = {}
    document["backends"]["eu-1"]["models"].append("tiny")
    document["tiers"]["free"]["pending_jobs"] = 1
    await put(admin, document, '"1"')
    await api.follow_config()
    await free.submit({"kind": "generation", "model": "tiny", "prompt": "x"})
    refused = await free.post("/api/v1/jobs", {"kind": "generation", "model": "tiny", "prompt": "x"}, 429)
    assert refused["limit"] == 1


async def test_the_size_of_the_queue_and_the_number_of_webhooks_change(
    api: ApiHarness, admin: Caller, anna: Caller
) -> None:
    for size, webhooks, status in ((2, 0, 429), (3, 1, 202)):
        view = await admin.get(CONFIG)
        document = view["document"]
        document["limits"] |= {"queue_size": size, "webhooks": webhooks}
        change = await put(admin, document, f'"{view["revision"]}"')
        assert change["restart_needed"] == []
        await api.follow_config()
        hook = {"url": "https://example.com/hook"}
        made = await anna.http.post("/api/v1/webhooks", json=hook)
        assert made.status_code == (201 if webhooks else 409), made.text
        if size == 2:
            for _ in range(size):
                await anna.submit(GENERATION)
        assert (await anna.http.post("/api/v1/jobs", json=GENERATION)).status_code == status


async def test_users_of_a_removed_tier_get_the_lowest_one(api: ApiHarness, admin: Caller) -> None:
    anna = await api.user("anna", "premium")
    assert (await anna.get("/api/v1/me"))["executions_per_job"] == 2000
    document = read_document(CONFIG_FILE)
    del document["tiers"]["premium"]
    await put(admin, document, '"1"')
    await api.follow_config()
    me = await anna.get("/api/v1/me")
    assert (me["tier"], me["executions_per_job"]) == ("free", 100)
    await anna.submit({**GENERATION, "duration": 5})


async def test_an_edited_file_is_applied_as_a_new_revision(
    api: ApiHarness, admin: Caller, tmp_path: Any
) -> None:
    text = CONFIG_FILE.read_text(encoding="utf-8").replace("cap = 10", "cap = 11")
    edited = tmp_path / "beacon.toml"
    edited.write_text(text, encoding="utf-8")
    service = ConfigService(api.configurations)
    assert (await apply_file(service, edited, comment="SIGHUP")).revision == 2
    assert not (await apply_file(service, edited, comment="SIGHUP")).applied
    await api.follow_config()
    assert api.live.current.groups["modal"].cap == 11


async def test_a_file_that_did_not_change_leaves_live_changes(
    api: ApiHarness, admin: Caller, tmp_path: Any
) -> None:
    assert not await file_changed(api.configurations, CONFIG_FILE)
    await admin.post("/admin/backends/us-1/drain")
    assert not await file_changed(api.configurations, CONFIG_FILE)
    edited = tmp_path / "beacon.toml"
    text = CONFIG_FILE.read_text(encoding="utf-8")
    edited.write_text(text.replace("cap = 10", "cap = 11"), encoding="utf-8")
    assert await file_changed(api.configurations, edited)
    await apply_file(ConfigService(api.configurations), edited, comment="at the start")
    assert not await file_changed(api.configurations, edited)
    assert await file_changed(api.configurations, CONFIG_FILE)
