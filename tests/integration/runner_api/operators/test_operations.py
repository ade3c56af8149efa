"""Routes for operators and orchestrators."""

import pytest

from beacon_contracts.queue_admin import RuntimeStats
from beacon_contracts.router_status import QueueStatus, RegionStatus
from beacon_contracts.tiers import JobClass
from beacon_runner.ports.router import RouterStatus
from beacon_runner.postgres.jobs.pauses import PostgresPauses
from tests.integration.runner_api.harness import (
    GENERATION,
    MATRIX,
    WITHOUT_KEY,
    ApiHarness,
    Caller,
    api_harness,
)


async def test_stats_count_waiting_leased_and_unpublished_messages(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    for _ in range(3):
        await anna.submit(GENERATION)
    await api.claim()
    await anna.submit(GENERATION)
    stats = RuntimeStats.model_validate(await admin.get("/admin/runtime/stats"))
    assert (stats.main, stats.leases, stats.retry, stats.dead) == (2, 1, 0, 0)
    assert stats.outbox is not None
    assert stats.outbox.pending == 1
    assert stats.oldest_age_s is not None
    assert {one.name: one.waiting for one in stats.classes} == {"high": 0, "medium": 2, "low": 0}
    assert [(lane.pending, lane.running) for lane in stats.lanes] == [(2, 1)]


async def test_dead_letters_are_listed_requeued_and_purged(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    jobs = [await anna.submit(GENERATION) for _ in range(4)]
    for _ in jobs:
        await api.run("never")
    await api.publish()
    page = await admin.get("/admin/queue-dead", limit=3)
    assert [letter["job_id"] for letter in page["dead_letters"]] == jobs[::-1][:3]
    assert (page["total"], page["dead_letters"][0]["reason"]) == (4, "permanent_failure")
    assert page["dead_letters"][0]["failure"]["code"] == "refused"
    last = await admin.get("/admin/queue-dead", cursor=page["next_cursor"])
    assert [letter["job_id"] for letter in last["dead_letters"]] == jobs[:1]
    assert (await admin.post("/admin/queue-dead/requeue", {"job_ids": jobs[:2]}))["count"] == 2
    assert (await admin.post("/admin/queue-dead/purge", {"job_ids": jobs[2:3]}))["count"] == 1
    assert (await admin.post("/admin/queue-dead/purge", {"all": True}))["count"] == 1
    assert (await admin.get("/admin/queue-dead"))["total"] == 0
    assert (await anna.job(jobs[2]))["status"] == "failed"
    await api.run("fixed")
    await api.run("fixed")
    assert [(await anna.job(job))["status"] for job in jobs[:2]] == ["completed", "completed"]


@pytest.mark.parametrize("choice", [{}, {"all": False}, {"all": True, "job_ids": []}, {"job_ids": ["x"]}])
async def test_the_choice_of_dead_letters_must_be_explicit(admin: Caller, choice: object) -> None:
    for action in ("purge", "requeue"):
        await admin.post(f"/admin/queue-dead/{action}", choice, 422)


async def test_no_message_of_a_paused_class_is_claimed(api: ApiHarness, anna: Caller, admin: Caller) -> None:
    await anna.submit(GENERATION)
    assert await admin.post("/admin/queues/medium/pause") == {"name": "medium", "paused": True}
    assert await api.claim() == []
    assert await PostgresPauses(api.store.database).paused() == {JobClass.MEDIUM}
    await admin.post("/admin/queues/medium/resume")
    assert len(await api.claim()) == 1
    await admin.post("/admin/queues/odd/pause", status=422)


async def test_correct_lane_counters_are_not_changed(api: ApiHarness, anna: Caller, admin: Caller) -> None:
    await anna.submit(GENERATION)
    await api.publish()
    assert await admin.post("/admin/lanes/reset") == {"corrected": []}


async def test_ready_when_both_servers_answer_and_the_schema_is_current(api: ApiHarness) -> None:
    stranger = api.caller(None)
    assert (await stranger.get("/healthz"))["status"] == "ok"
    assert (await stranger.get("/readyz"))["ready"] is True


async def test_not_ready_without_redis_or_without_migrations(
    api: ApiHarness, empty_database_url: str, database_url: str, redis_url: str
) -> None:
    async with api_harness(database_url, "redis://127.0.0.1:1/0") as without_redis:
        answer = await without_redis.caller(None).get("/readyz", 503)
        assert (answer["parts"]["postgres"], answer["parts"]["redis"] != "ok") == ("ok", True)
    async with api_harness(empty_database_url, redis_url) as without_schema:
        answer = await without_schema.caller(None).get("/readyz", 503)
        assert "migrate" in answer["parts"]["migrations"]


async def test_without_postgres_requests_get_a_503_with_retry_after(redis_url: str) -> None:
    async with api_harness("postgresql://beacon@127.0.0.1:1/none", redis_url) as alone:
        answer = await alone.caller("bk_any").http.post("/api/v1/jobs", json=GENERATION)
        assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
        assert answer.headers["retry-after"] == "1"
        ready = await alone.caller(None).get("/readyz", 503)
        assert ready["parts"]["postgres"] != "ok"


async def test_without_redis_jobs_are_still_accepted(database_url: str) -> None:
    """Postgres is the source of record: without Redis jobs are delayed, not refused."""
    async with api_harness(database_url, "redis://127.0.0.1:1/0") as alone:
        anna, admin = await alone.user("anna"), await alone.admin()
        accepted = await anna.post("/api/v1/jobs", MATRIX, 202)
        assert accepted["position"] is None
        assert (await anna.job(accepted["job_id"]))["status"] == "queued"
        assert "unknown" in (await anna.get(f"/api/v1/jobs/{accepted['job_id']}/why"))["summary"]
        assert (await anna.post(f"/api/v1/jobs/{accepted['job_id']}/cancel"))["status"] == "cancelled"
        assert (await admin.get("/admin/runtime/stats", 503))["code"] == "queue_unavailable"


async def test_the_catalogue_lists_models_features_and_prices(anna: Caller) -> None:
    models = {model["id"]: model for model in (await anna.get("/api/v1/models"))["models"]}
    assert models["flux"]["regions"] == ["US", "EU"]
    features = {one["name"]: one for one in (await anna.get("/api/v1/features"))["features"]}
    assert features["text_only"]["inputs"] == ["prompt"]
    assert [step["name"] for step in features["text_only"]["steps"]] == ["prompt_enhancer", "fast_chat_llm"]


async def test_regions_carry_the_routers_live_state(api: ApiHarness, anna: Caller) -> None:
    eu = RegionStatus(
        region="EU",
        concurrency=4,
        main=9,
        front=0,
        retry=0,
        completed=1,
        failed=0,
        cancelled=0,
        slots=4,
        busy=4,
        healthy=True,
    )
    queues = QueueStatus(
        regions={"EU": eu}, global_retry=2, backing_off=0, waiting=9, running=4, held_bytes=0
    )
    api.router.statuses = [RouterStatus("http://a", 0, queues), RouterStatus("http://b", 0, None, "away")]
    answer = await anna.get("/api/v1/regions")
    states = {region["name"]: region["state"] for region in answer["regions"]}
    assert states["EU"]["main"] == 9
    assert (states["US"], answer["global_retry"]) == (None, 2)


async def test_metrics_and_unknown_paths(api: ApiHarness, anna: Caller) -> None:
    await anna.submit(GENERATION)
    metrics = await api.caller(None).http.get("/metrics")
    assert 'route="/api/v1/jobs"' in metrics.text
    missing = await anna.get("/api/v1/nothing", 404)
    assert missing["code"] == "unknown_path"
    assert "/openapi.json" in missing["detail"]
    wrong = await anna.http.delete("/api/v1/jobs")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")
    assert "Allow" in wrong.json()["detail"]
    assert wrong.headers["allow"]


async def test_an_oversized_body_is_refused_on_every_route(admin: Caller) -> None:
    answer = await admin.http.post(
        "/admin/queue-dead/purge",
        content=b'{"job_ids": ["' + b"x" * 2_000_000 + b'"]}',
        headers={"content-type": "application/json"},
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


async def test_the_document_describes_every_route_with_examples(api: ApiHarness) -> None:
    document = await api.caller(None).get("/openapi.json")
    assert set(document["paths"]["/api/v1/jobs"]) == {"get", "post"}
    examples = document["paths"]["/api/v1/jobs"]["post"]["requestBody"]["content"]["application/json"][
        "examples"
    ]
    assert set(examples) == {"matrix", "pipeline", "generation", "input"}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path not in WITHOUT_KEY:
                assert "401" in operation["responses"], path


async def test_the_document_distinguishes_retryable_batch_refusals(api: ApiHarness) -> None:
    document = await api.caller(None).get("/openapi.json")
    answers = document["paths"]["/api/v1/jobs/batch"]["post"]["responses"]
    examples = {
        status: answers[status]["content"]["application/problem+json"]["example"] for status in ("422", "429")
    }
    assert {status: one["code"] for status, one in examples.items()} == {
        "422": "batch_exceeds_limit",
        "429": "pending_jobs_limit",
    }
    assert [status for status, one in examples.items() if "retry_after_s" in one] == ["429"]


NO_JOB = "job_" + "0" * 26


@pytest.mark.parametrize("cursor", ["x", NO_JOB, "job_0.1", f"{NO_JOB}.-1", NO_JOB + "." + "9" * 60])
async def test_an_invalid_cursor_of_dead_letters_is_refused(admin: Caller, cursor: str) -> None:
    assert (await admin.get("/admin/queue-dead", 422, cursor=cursor))["code"] == "invalid_field"
