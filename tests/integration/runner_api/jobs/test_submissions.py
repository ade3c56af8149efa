"""`POST /api/v1/jobs` and `/batch`: accepted and refused submissions."""

import asyncio
from datetime import timedelta
from typing import Any

import orjson
import pytest

from beacon_config.retention import RetentionConfig
from beacon_contracts.ids import decode_job_id
from beacon_contracts.jobs import JobAccepted
from beacon_runner.maintenance.retention import Retention
from tests.integration.runner_api.harness import (
    CONFIG,
    GENERATION,
    MATRIX,
    PIPELINE,
    ApiHarness,
    Caller,
)
from tests.integration.runner_store.statements import AGE_JOB


@pytest.mark.parametrize("body", [GENERATION, MATRIX, PIPELINE])
async def test_a_job_is_accepted_stored_and_the_publisher_woken(
    api: ApiHarness, anna: Caller, body: dict[str, Any]
) -> None:
    answer = await anna.http.post("/api/v1/jobs", json=body)
    assert answer.status_code == 202
    accepted = JobAccepted.model_validate(answer.json())
    assert (accepted.status, accepted.tier, accepted.priority) == ("queued", "premium", "medium")
    assert answer.headers["location"] == accepted.links["self"]
    assert api.notified == [None]
    assert (await anna.get(accepted.links["self"]))["job_id"] == accepted.job_id


async def test_the_answer_has_position_and_wait(api: ApiHarness, anna: Caller) -> None:
    first = await anna.post("/api/v1/jobs", GENERATION, 202)
    assert (first["position"], first["estimated_wait_s"]) == (1, None)
    assert first["no_estimate_reason"] == "no router answers"
    await api.publish()
    await api.clock.advance(5)
    assert (await anna.post("/api/v1/jobs", GENERATION, 202))["position"] == 2


async def test_the_same_key_and_body_are_the_same_job(api: ApiHarness, anna: Caller) -> None:
    key = {"Idempotency-Key": "order 7"}
    first = await anna.http.post("/api/v1/jobs", json=GENERATION, headers=key)
    spaced = orjson.dumps(dict(reversed(GENERATION.items())), option=orjson.OPT_INDENT_2)
    again = await anna.http.post("/api/v1/jobs", content=spaced, headers=key)
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json()["job_id"] == again.json()["job_id"]
    other = await anna.http.post("/api/v1/jobs", json=GENERATION | {"prompt": "a dog"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    assert other.json()["job_id"] == first.json()["job_id"]
    assert await api.publish() == 1


async def test_concurrent_repetitions_make_one_job(api: ApiHarness, anna: Caller) -> None:
    key = {"Idempotency-Key": "k"}
    answers = await asyncio.gather(
        *(anna.http.post("/api/v1/jobs", json=MATRIX, headers=key) for _ in range(30))
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 29 + [202]
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert await api.publish() == 1


@pytest.mark.parametrize(
    ("content", "status", "code", "field"),
    [
        (b"", 400, "invalid_json", None),
        (b"{", 400, "invalid_json", None),
        (b'{"kind": "generation", "model": "flux", "prompt": "\xff"}', 400, "invalid_json", None),
        (b'{"kind": "generation", "model": "flux", "prompt": "\\ud800"}', 400, "invalid_json", None),
        (b"[" * 100_000, 400, "invalid_json", None),
        (b"null", 422, "invalid_field", "body"),
        (b"{}", 422, "invalid_field", "body"),
        (b'{"kind": "poem"}', 422, "invalid_field", "body"),
        (b'{"kind": "generation", "model": "flux"}', 422, "invalid_field", "prompt"),
        (b'{"kind": "generation", "model": "flux", "prompt": ""}', 422, "invalid_field", "prompt"),
        (b'{"kind": "generation", "model": "flux", "prompt": "a\\u0000b"}', 422, "invalid_field", "prompt"),
        (b'{"kind": "generation", "model": "gpt-9", "prompt": "x"}', 422, "invalid_field", "model"),
        (
            b'{"kind": "generation", "model": "flux", "prompt": "x", "regoin": "US"}',
            422,
            "invalid_field",
            "regoin",
        ),
        (
            b'{"kind": "generation", "model": "flux", "prompt": "x", "duration": NaN}',
            422,
            "invalid_field",
            "duration",
        ),
        (
            b'{"kind": "generation", "model": "flux", "prompt": "x", "params": {"a": 1e999}}',
            422,
            "invalid_field",
            "params.a",
        ),
        (
            b'{"kind": "generation", "model": "flux", "prompt": "x", "params": {"a": %d}}' % 10**30,
            422,
            "invalid_field",
            "params.a",
        ),
        (
            b'{"kind": "matrix", "questions": [], "models": ["flux"], "regions": ["US"]}',
            422,
            "invalid_field",
            "questions",
        ),
        (
            (
                b'{"kind": "matrix", "questions": [{"id": "q", "prompt": "x"}], '
                b'"models": [{"id": "flux", "regions": []}], "regions": ["US"]}'
            ),
            422,
            "invalid_field",
            "models[0].regions",
        ),
    ],
)
async def test_invalid_input_is_refused_and_changes_nothing(
    api: ApiHarness, anna: Caller, *, content: bytes, status: int, code: str, field: str | None
) -> None:
    answer = await anna.http.post("/api/v1/jobs", content=content)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
    if field is not None:
        assert field in [error["field"] for error in problem["errors"]]
    assert (await anna.get("/api/v1/jobs"))["jobs"] == []
    assert await api.publish() == 0


async def test_a_body_above_the_limit_is_refused_with_or_without_length(anna: Caller) -> None:
    limit = CONFIG.limits.body_bytes

    async def pieces() -> Any:
        for _ in range(limit // 65_536 + 2):
            yield b" " * 65_536

    for content in (b" " * (limit + 1), pieces()):
        answer = await anna.http.post("/api/v1/jobs", content=content)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("key", ["", "x" * 201, "caf\u00e9"])
async def test_an_invalid_idempotency_key_is_refused(anna: Caller, key: str) -> None:
    headers = {b"idempotency-key": key.encode("latin-1")}
    answer = await anna.http.post("/api/v1/jobs", json=GENERATION, headers=headers)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "Idempotency-Key")


async def test_a_batch_is_stored_whole_and_in_order(api: ApiHarness, anna: Caller) -> None:
    answer = await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION, MATRIX, PIPELINE]}, 202)
    ids = [job["job_id"] for job in answer["jobs"]]
    assert len(set(ids)) == 3
    listed = (await anna.get("/api/v1/jobs"))["jobs"]
    assert [job["job_id"] for job in listed] == ids[::-1]
    assert await api.publish() == 3


async def test_the_jobs_of_a_batch_are_answered_like_single_ones(api: ApiHarness, anna: Caller) -> None:
    await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION] * 4}, 202)
    await api.publish()
    await api.clock.advance(5)
    bodies = [GENERATION, MATRIX, GENERATION]
    together = (await anna.post("/api/v1/jobs/batch", {"jobs": bodies}, 202))["jobs"]
    alone = [await anna.post("/api/v1/jobs", body, 202) for body in bodies]
    assert [one["position"] for one in (*together, *alone)] == [5, 6, 7, 8, 9, 10]
    assert [set(one) for one in together] == [set(one) for one in alone]


async def test_a_batch_with_a_bad_job_is_refused_whole_with_each_error(api: ApiHarness, anna: Caller) -> None:
    bad = [GENERATION, GENERATION | {"model": "nope"}, MATRIX | {"regions": ["mars"]}]
    problem = await anna.post("/api/v1/jobs/batch", {"jobs": bad}, 422)
    assert {"jobs[1].model", "jobs[2].regions[0]"} <= {error["field"] for error in problem["errors"]}
    shape = await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION, {"kind": "matrix"}]}, 422)
    assert "jobs[1].questions" in {error["field"] for error in shape["errors"]}
    assert await api.publish() == 0


async def test_a_batch_has_a_maximum_size(anna: Caller) -> None:
    problem = await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION] * 1_001}, 422)
    assert problem["errors"][0]["code"] == "too_many"


async def test_a_batch_is_repeated_by_its_key_as_a_whole(api: ApiHarness, anna: Caller) -> None:
    body = {"jobs": [GENERATION] * 5}
    first = await anna.post("/api/v1/jobs/batch", body, 202, **{"Idempotency-Key": "b"})
    again = await anna.post("/api/v1/jobs/batch", body, 200, **{"Idempotency-Key": "b"})
    assert [job["job_id"] for job in first["jobs"]] == [job["job_id"] for job in again["jobs"]]
    other = {"jobs": [GENERATION] * 6}
    refused = await anna.post("/api/v1/jobs/batch", other, 409, **{"Idempotency-Key": "b"})
    assert refused["code"] == "idempotency_key_reused"
    assert await api.publish() == 5


async def test_a_repeated_batch_has_the_state_of_each_job(api: ApiHarness, anna: Caller) -> None:
    key, body = {"Idempotency-Key": "b"}, {"jobs": [GENERATION] * 3}
    await anna.post("/api/v1/jobs/batch", body, 202, **key)
    await api.run("a cat")
    again = (await anna.post("/api/v1/jobs/batch", body, 200, **key))["jobs"]
    assert [job["status"] for job in again] == ["completed", "queued", "queued"]
    assert [job["position"] is None for job in again] == [True, False, False]


@pytest.mark.parametrize("tier", ["premium", "admin"])
async def test_a_key_of_one_job_is_not_the_key_of_a_batch_of_one(api: ApiHarness, tier: str) -> None:
    ben, key = await api.user("ben", tier), {"Idempotency-Key": "one"}
    alone = await ben.submit(GENERATION, **key)
    refused = await ben.post("/api/v1/jobs/batch", {"jobs": [GENERATION]}, 409, **key)
    assert (refused["code"], refused["job_id"]) == ("idempotency_key_reused", alone)


async def test_a_batch_with_a_deleted_job_is_not_repeated(api: ApiHarness, anna: Caller) -> None:
    """Jobs may be kept for a shorter time than keys, and the jobs of a batch end at different times."""
    body, key = {"jobs": [GENERATION] * 3}, {"Idempotency-Key": "b"}
    first = await anna.post("/api/v1/jobs/batch", body, 202, **key)
    gone: str = first["jobs"][1]["job_id"]
    await anna.post(f"/api/v1/jobs/{gone}/cancel")
    await api.store.database.execute(AGE_JOB, decode_job_id(gone), timedelta(hours=2))
    await Retention(api.store.retention, lambda: RetentionConfig(jobs_s=3600)).run_once()
    assert (await anna.post("/api/v1/jobs/batch", body, 409, **key))["code"] == "idempotency_key_reused"
