"""Limits of tiers, counted in the storing transaction."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from beacon_config import BeaconConfig
from beacon_contracts.ids import USER, KeyId, UserId, decode_id, new_uuid
from beacon_runner.domain.accounts.usage import InteractiveUsage
from beacon_runner.domain.jobs.job_filter import JobFilter
from beacon_runner.domain.limits.job_quota import QuotaLimit
from beacon_runner.postgres.accounts.usage import PostgresUsage
from tests.integration.runner_api.harness import CONFIG, GENERATION, MATRIX, ApiHarness, Caller, api_harness
from tests.integration.runner_store.statements import AGE_JOB

REQUEST_LIMITS = ("requests_per_minute", "concurrent_requests", "streams")
SONG = {"kind": "generation", "model": "music", "prompt": "a song", "region": "US"}

OTHER_LIMITS = (QuotaLimit.QUEUE_SIZE, QuotaLimit.STORAGE_BYTES)
JOB_LIMITS = [
    one for one in QuotaLimit if one not in (QuotaLimit.STORAGE_BYTES, QuotaLimit.GPU_SECONDS_PER_DAY)
]


async def submit(caller: Caller, body: Any = GENERATION, **headers: str) -> Any:
    return await caller.http.post("/api/v1/jobs", json=body, headers=headers)


async def test_a_finished_job_frees_a_pending_place(api: ApiHarness) -> None:
    anna = await api.user(tier="free")
    await anna.submit(GENERATION)
    await anna.submit(GENERATION)
    answer = await submit(anna)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (429, "pending_jobs_limit")
    assert (problem["limit_name"], problem["limit"], problem["used"]) == ("pending_jobs", 2, 2)
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["x-ratelimit-limit-pending-jobs"] == "2"
    assert answer.headers["x-ratelimit-remaining-pending-jobs"] == "0"
    assert len((await anna.get("/api/v1/jobs"))["jobs"]) == 2

    await api.run("done")
    await anna.submit(GENERATION)


async def test_the_hourly_limit_reports_when_it_frees(
    api: ApiHarness,
) -> None:
    anna = await api.user(tier="free")
    for _ in range(2):
        await anna.submit(GENERATION)
        await api.run("done")
    await anna.submit(GENERATION)  # one that lives counts as well
    await _age(api, minutes=40)
    answer = await submit(anna)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (429, "jobs_per_hour_limit")
    assert (problem["limit"], problem["used"]) == (3, 3)
    assert 0 < int(answer.headers["retry-after"]) <= 1200

    await _age(api, minutes=21)
    await anna.submit(GENERATION)


async def test_one_of_fifty_concurrent_submissions_gets_the_last_place(api: ApiHarness) -> None:
    anna = await api.user(tier="premium")
    for _ in range(9):
        await anna.submit(GENERATION)
    answers = await asyncio.gather(*(submit(anna) for _ in range(50)))
    assert Counter(answer.status_code for answer in answers) == {202: 1, 429: 49}
    assert len((await anna.get("/api/v1/jobs"))["jobs"]) == 10


@pytest.mark.parametrize("limit", JOB_LIMITS)
async def test_two_processes_never_exceed_a_limit_together(
    database_url: str, redis_url: str, limit: QuotaLimit
) -> None:
    """Fifty concurrent requests to two API processes: exactly one is accepted."""
    config = limited_to_ten(limit)
    async with (
        api_harness(database_url, redis_url, config) as api,
        api_harness(database_url, redis_url, config) as other,
    ):
        anna = await api.user(tier="premium")
        there = other.caller(anna.http.headers["authorization"].removeprefix("Bearer "))
        for _ in range(9):
            await anna.submit(GENERATION)
        answers = await asyncio.gather(*(submit(caller) for caller in (anna, there) for _ in range(25)))
        assert len((await anna.get("/api/v1/jobs"))["jobs"]) == 10
    assert Counter(answer.status_code for answer in answers) == {202: 1, 429: 49}
    for refused in (answer for answer in answers if answer.status_code == 429):
        problem = refused.json()
        assert (problem["limit_name"], problem["limit"], problem["used"]) == (limit, 10, 10)
        assert int(refused.headers["retry-after"]) >= 1


def limited_to_ten(limit: QuotaLimit) -> BeaconConfig:
    """Only this limit applies to premium users."""
    bounds = {str(one): 10 if one is limit else None for one in QuotaLimit if one not in OTHER_LIMITS}
    premium = CONFIG.tiers["premium"].model_copy(update=bounds)
    limits = CONFIG.limits.model_copy(update={"queue_size": 10} if limit is QuotaLimit.QUEUE_SIZE else {})
    return CONFIG.model_copy(update={"tiers": {**CONFIG.tiers, "premium": premium}, "limits": limits})


async def test_limits_of_users_are_independent(api: ApiHarness) -> None:
    anna, bert = await api.user("anna", "free"), await api.user("bert", "free")
    callers = [anna] * 5 + [bert] * 2
    answers = await asyncio.gather(*(submit(caller) for caller in callers))
    assert Counter(answer.status_code for answer in answers[:5]) == {202: 2, 429: 3}
    assert [answer.status_code for answer in answers[5:]] == [202, 202]


async def test_a_repeated_request_does_not_count_again(api: ApiHarness) -> None:
    anna = await api.user(tier="free")
    keyed = {"idempotency-key": "once"}
    await anna.submit(GENERATION)
    answers = await asyncio.gather(*(submit(anna, **keyed) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [202]
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert (await submit(anna, **keyed)).status_code == 200
    assert (await submit(anna)).status_code == 429


async def test_a_batch_is_stored_whole_or_refused_with_an_error_per_job(api: ApiHarness) -> None:
    anna = await api.user(tier="supporter")
    await anna.submit(GENERATION)
    problem = await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION] * 5}, 429)
    assert problem["code"] == "pending_jobs_limit"
    assert {error["code"] for error in problem["errors"]} == {"pending_jobs_limit"}
    assert "jobs[4]" in {error["field"] for error in problem["errors"]}
    assert (problem["limit"], problem["used"]) == (5, 1)
    assert problem["detail"].endswith("may have 5 pending jobs; you have 1, and this batch has 5")
    assert len((await anna.get("/api/v1/jobs"))["jobs"]) == 1

    await api.run("done")  # it could fit later, and now it does
    await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION] * 5}, 202)


@pytest.mark.parametrize("key", [{}, {"idempotency-key": "bulk"}])
async def test_a_batch_above_a_limit_is_refused_permanently(api: ApiHarness, key: dict[str, str]) -> None:
    """Of the two limits that thirty jobs exceed, the lower one is reported."""
    anna = await api.user(tier="supporter")
    answer = await anna.http.post("/api/v1/jobs/batch", json={"jobs": [GENERATION] * 30}, headers=key)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "batch_exceeds_limit")
    assert (problem["limit_name"], problem["limit"], problem["batch_size"]) == ("pending_jobs", 5, 30)
    assert problem["detail"] == (
        "a user of tier supporter may have 5 pending jobs, and this request has 30: no wait makes room "
        "for it; split it into requests of at most 5"
    )
    assert [error["field"] for error in problem["errors"]] == ["jobs"]
    assert "retry-after" not in answer.headers
    assert "retry_after_s" not in problem
    assert (await anna.get("/api/v1/jobs"))["jobs"] == []
    await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION] * 5}, 202, **key)  # the key is free


@pytest.mark.parametrize("limit", JOB_LIMITS)
async def test_each_limit_can_refuse_a_batch_permanently(
    database_url: str, redis_url: str, limit: QuotaLimit
) -> None:
    async with api_harness(database_url, redis_url, limited_to_ten(limit)) as api:
        anna = await api.user(tier="premium")
        problem = await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION] * 11}, 422)
        assert (problem["code"], problem["limit_name"]) == ("batch_exceeds_limit", limit)
        assert (problem["limit"], problem["batch_size"]) == (10, 11)
        await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION] * 10}, 202)
        await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION] * 10}, 429)


async def test_a_batch_from_before_the_tier_was_lowered_is_found_by_its_key(api: ApiHarness) -> None:
    anna, root = await api.user(tier="premium"), await api.admin()
    body, key = {"jobs": [GENERATION] * 8}, {"idempotency-key": "bulk"}
    first = await anna.post("/api/v1/jobs/batch", body, 202, **key)
    (user,) = [one for one in (await root.get("/admin/users"))["users"] if one["name"] == "anna"]
    await root.post(f"/admin/users/{user['id']}", {"tier": "free"})
    again = await anna.post("/api/v1/jobs/batch", body, 200, **key)
    assert [job["job_id"] for job in first["jobs"]] == [job["job_id"] for job in again["jobs"]]
    assert (await anna.post("/api/v1/jobs/batch", body, 422))["limit"] == 2


async def test_a_batch_under_a_key_is_counted_once(api: ApiHarness) -> None:
    anna = await api.user(tier="supporter")
    body, key = {"jobs": [GENERATION] * 5}, {"idempotency-key": "bulk"}
    first = await anna.post("/api/v1/jobs/batch", body, 202, **key)
    again = await anna.post("/api/v1/jobs/batch", body, 200, **key)
    assert [job["job_id"] for job in first["jobs"]] == [job["job_id"] for job in again["jobs"]]
    await anna.post("/api/v1/jobs/batch", body, 429, **{"idempotency-key": "more"})


async def test_a_duration_over_the_tiers_maximum_is_named(api: ApiHarness) -> None:
    anna = await api.user(tier="free")
    problem = await anna.post("/api/v1/jobs", SONG | {"duration": 31}, 422)
    assert problem["code"] == "duration_too_long"
    assert "free" in problem["detail"]
    assert "30" in problem["detail"]
    await anna.submit(SONG | {"duration": 30})


async def test_a_full_queue_refuses_all_users(database_url: str, redis_url: str) -> None:
    limits = CONFIG.limits.model_copy(update={"queue_size": 5})
    async with api_harness(database_url, redis_url, CONFIG.model_copy(update={"limits": limits})) as api:
        root, anna = await api.admin(), await api.user()
        answers = await asyncio.gather(*(submit(caller) for caller in (root, anna) for _ in range(10)))
        assert Counter(answer.status_code for answer in answers) == {202: 5, 429: 15}
        problem = (await submit(root)).json()
        assert (problem["code"], problem["limit"], problem["used"]) == ("queue_full", 5, 5)
        await api.run("done")
        await root.submit(GENERATION)


async def test_executions_of_unfinished_jobs_are_limited(database_url: str, redis_url: str) -> None:
    config = limited_to_ten(QuotaLimit.IN_FLIGHT_EXECUTIONS)
    async with api_harness(database_url, redis_url, config) as api:
        anna = await api.user(tier="premium")
        first = await anna.submit(MATRIX)  # four executions
        await anna.submit(MATRIX)
        problem = await anna.post("/api/v1/jobs", MATRIX, 429)
        assert (problem["code"], problem["used"]) == ("in_flight_executions_limit", 8)
        waiting = await anna.submit(MATRIX | {"on_limit": "wait"})
        assert (await anna.job(waiting))["status"] == "scheduled"
        me = await anna.get("/api/v1/me")
        assert me["limits"]["in_flight_executions"]["left"] == 2
        await anna.post(f"/api/v1/jobs/{first}/cancel")
        await anna.submit(MATRIX)
        large = MATRIX | {"questions": [{"id": f"q{number}", "prompt": "why?"} for number in range(6)]}
        problem = await anna.post("/api/v1/jobs", large | {"on_limit": "wait"}, 422)
        assert (problem["limit_name"], problem["batch_size"]) == ("in_flight_executions", 12)


async def test_gpu_seconds_of_a_day_are_limited(database_url: str, redis_url: str) -> None:
    config = limited_to_ten(QuotaLimit.GPU_SECONDS_PER_DAY)
    async with api_harness(database_url, redis_url, config) as api:
        anna = await api.user(tier="premium")
        me = await anna.get("/api/v1/me")
        user, key = UserId(decode_id(USER, me["user_id"])), KeyId(new_uuid())
        await anna.submit(GENERATION)
        store = PostgresUsage(api.store.database)
        run = InteractiveUsage(user, key, "flux", "US", 0, 4, 6.5, 0, 0, failed=False)
        await store.add_interactive([run])
        for _ in range(2):  # before the roll-up and after it
            problem = await anna.post("/api/v1/jobs", GENERATION, 429)
            assert (problem["code"], problem["used"]) == ("gpu_seconds_per_day_limit", 10)
            assert 0 < problem["retry_after_s"] <= 86_400
            await store.roll_up(10)
        assert (await anna.get("/api/v1/me"))["limits"]["gpu_seconds_per_day"]["left"] == 0
        await (await api.user("bert")).submit(GENERATION)


async def test_me_shows_the_remaining_limits(api: ApiHarness) -> None:
    anna = await api.user(tier="free")
    await anna.submit(GENERATION)
    await api.run("done")
    await anna.submit(GENERATION)
    me = await anna.get("/api/v1/me")
    assert me["limits"]["pending_jobs"] == {"limit": 2, "used": 1, "left": 1, "resets_in_s": None}
    assert me["limits"]["jobs_per_hour"] == {"limit": 3, "used": 2, "left": 1, "resets_in_s": None}
    assert me["max_duration_s"] == 30
    await anna.submit(GENERATION)
    hour = (await anna.get("/api/v1/me"))["limits"]["jobs_per_hour"]
    assert hour["left"] == 0
    assert 0 < hour["resets_in_s"] <= 3600

    root = await api.admin()
    await root.submit(GENERATION)
    assert (await root.get("/api/v1/me"))["limits"]["pending_jobs"] == {
        "limit": None,
        "used": 1,
        "left": None,
        "resets_in_s": None,
    }


async def _age(api: ApiHarness, *, minutes: int) -> None:
    """Move the submission of all jobs into the past."""
    for job in (await api.store.queries.page(JobFilter(), limit=100)).jobs:
        await api.store.database.execute(AGE_JOB, job.id, timedelta(minutes=minutes))


async def test_a_matrix_and_a_duration_above_the_tier_are_refused_and_count_nothing(api: ApiHarness) -> None:
    anna = await api.user(tier="free")
    questions = [{"id": f"q{number}", "prompt": "why?"} for number in range(3_000)]
    models = ["llama3.2-1b", "qwen2.5-1.5b", "mistral-7b"]
    matrix = {"kind": "matrix", "questions": questions, "models": models, "regions": ["US"]}
    problem = await anna.post("/api/v1/jobs", matrix, 422)
    assert problem["code"] == "executions_per_job_limit"
    assert "9000" in problem["detail"]
    assert "100" in problem["detail"]
    hidden = SONG | {"duration": 1, "params": {"duration": 600}}
    problem = await anna.post("/api/v1/jobs", hidden, 422)
    assert [error["field"] for error in problem["errors"]] == ["params.duration"] * 2
    problem = await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION, matrix]}, 422)
    assert (problem["code"], problem["errors"][0]["field"]) == (
        "executions_per_job_limit",
        "jobs[1].questions",
    )
    me = await anna.get("/api/v1/me")
    assert (me["limits"]["pending_jobs"]["used"], me["limits"]["jobs_per_hour"]["used"]) == (0, 0)
    assert (me["executions_per_job"], me["max_duration_s"], me["models"]) == (100, 30, [])


async def test_a_skip_costs_as_much_for_a_duration_in_params(api: ApiHarness) -> None:
    anna = await api.user(tier="creator")
    for body in (SONG | {"duration": 100}, SONG | {"duration": 1, "params": {"duration": 100}}):
        assert (await anna.job(await anna.submit(body)))["skip_price"] == 10


async def test_a_tier_uses_only_its_models(database_url: str, redis_url: str) -> None:
    free = CONFIG.tiers["free"].model_copy(update={"models": ["flux"]})
    config = CONFIG.model_copy(update={"tiers": CONFIG.tiers | {"free": free}})
    async with api_harness(database_url, redis_url, config) as api:
        anna = await api.user(tier="free")
        problem = await anna.post("/api/v1/jobs", SONG, 422)
        assert (problem["code"], problem["errors"][0]["field"]) == ("model_not_allowed", "model")
        assert (await anna.get("/api/v1/me"))["models"] == ["flux"]
        await anna.submit(GENERATION)


async def test_requests_and_streams_are_shown_with_remaining_limits(api: ApiHarness) -> None:
    anna = await api.user(tier="free")
    limits = (await anna.get("/api/v1/me"))["limits"]
    shown = {name: (limits[name]["limit"], limits[name]["left"]) for name in REQUEST_LIMITS}
    assert shown == {"requests_per_minute": (20, 20), "concurrent_requests": (4, 4), "streams": (8, 8)}
    root = await api.admin()
    unlimited = (await root.get("/api/v1/me"))["limits"]["streams"]
    assert unlimited == {"limit": None, "used": None, "left": None, "resets_in_s": None}
