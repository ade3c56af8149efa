"""Invalid requests: a 4xx with a code, nothing queued, no slot used."""

from typing import Any

import pytest

from tests.fixtures.gpusim import Gpusim
from tests.fixtures.router import Router

GOOD: dict[str, Any] = {"request_id": "bad-1", "model": "m", "region": "US", "input": {"prompt": "x"}}

WRONG_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"model": "gpt-9"}, "unknown_model"),
    ({"region": "MARS"}, "unknown_region"),
    ({"model": None}, "invalid_field"),
    ({"input": "a text"}, "invalid_field"),
    ({"input": None}, "invalid_field"),
    ({"request_id": ""}, "invalid_field"),
    ({"request_id": "x" * 121}, "invalid_field"),
    ({"request_id": "nul\0"}, "invalid_field"),
    ({"failover": "maybe"}, "invalid_field"),
    ({"fence": -1}, "invalid_field"),
    ({"fence": 2**63}, "invalid_field"),
    ({"fence": 1.5}, "invalid_field"),
    ({"fence": True}, "invalid_field"),
    ({"fence": "3"}, "invalid_field"),
    ({"front": "yes"}, "invalid_field"),
    ({"timeout_s": True}, "invalid_field"),
    ({"timeout_s": "5"}, "invalid_field"),
    ({"start_by": True}, "invalid_field"),
    ({"timeout_s": 0}, "invalid_field"),
    ({"timeout_s": -3}, "invalid_field"),
    ({"timeout_s": 1e12}, "invalid_field"),
    ({"start_by": "soon"}, "invalid_field"),
    ({"start_by": -1}, "invalid_field"),
    ({"start_by": 1e300}, "invalid_field"),
    ({"meta": {"job_id": "j", "step_index": -1}}, "invalid_field"),
    ({"prompt": "an unknown field"}, "invalid_field"),
    ({"user_id": "u" * 121}, "invalid_field"),
    ({"weight": 0}, "invalid_field"),
]

BODIES: list[tuple[bytes, int, str]] = [
    (b"", 400, "invalid_json"),
    (b"{", 400, "invalid_json"),
    (b"[]", 400, "invalid_json"),
    (b'"text"', 400, "invalid_json"),
    (b'{"request_id": "\xff\xfe"}', 400, "invalid_json"),
    (b'{"request_id":"a","model":"m","region":"US","input":{"x":NaN}}', 400, "invalid_json"),
    (b'{"request_id":"a","model":"m","region":"US","input":{"x":1e999}}', 400, "invalid_json"),
    (b'{"request_id":"a","model":"m","region":"US","input":{"x":"\\ud800"}}', 400, "invalid_json"),
    (b'{"input":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}", 400, "invalid_json"),
    (
        b'{"request_id":"a","model":"m","region":"US","input":' + b'{"a":' * 400 + b"1" + b"}" * 400 + b"}",
        422,
        "invalid_field",
    ),
]


@pytest.mark.parametrize(("change", "code"), WRONG_FIELDS)
async def test_wrong_fields(router: Router, gpu: Gpusim, change: dict[str, Any], code: str) -> None:
    before = len(await gpu.ledger())

    answer = await router.http.post("/inference", json=GOOD | change)

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, code)
    assert next(iter(change)) in problem["detail"]
    await nothing_happened(router, gpu, before)


@pytest.mark.parametrize(("body", "status", "code"), BODIES, ids=range(len(BODIES)))
async def test_wrong_bodies(router: Router, gpu: Gpusim, body: bytes, status: int, code: str) -> None:
    before = len(await gpu.ledger())

    answer = await router.http.post("/inference", content=body)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    await nothing_happened(router, gpu, before)


async def test_a_body_over_the_limit(router: Router, gpu: Gpusim) -> None:
    before = len(await gpu.ledger())

    answer = await router.http.post("/inference", json=GOOD | {"input": {"prompt": "x" * 100_000}})

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    await nothing_happened(router, gpu, before)


async def test_a_chunked_body_over_the_limit(router: Router, gpu: Gpusim) -> None:
    async def endless() -> Any:
        for _ in range(200):
            yield b"x" * 1_000

    before = len(await gpu.ledger())
    answer = await router.http.post("/inference", content=endless())

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    await nothing_happened(router, gpu, before)


@pytest.mark.parametrize(
    ("headers", "refusal"),
    [
        ({}, (401, "no_token")),
        ({"authorization": "Basic abc"}, (401, "no_token")),
        ({"authorization": "Bearer wrong"}, (403, "wrong_token")),
        ({"x-api-key": "wrong"}, (403, "wrong_token")),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/inference"),
        ("GET", "/inference/x"),
        ("DELETE", "/inference/x"),
        ("GET", "/queue/status"),
        ("GET", "/queue/status/US"),
        ("GET", "/status"),
    ],
)
async def test_unauthenticated_requests(
    router: Router, method: str, path: str, headers: dict[str, str], refusal: tuple[int, str]
) -> None:
    del router.http.headers["authorization"]

    answer = await router.http.request(method, path, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == refusal


async def test_a_pinned_model_that_its_region_does_not_have(router: Router) -> None:
    answer = await router.submit("nowhere", model="slow", region="EU", failover="pinned")

    assert (answer.status_code, answer.json()["code"]) == (503, "no_backend")
    assert int(answer.headers["retry-after"]) >= 1
    assert "EU" in answer.json()["detail"]


async def test_a_reused_id(router: Router) -> None:
    await router.infer("named")

    answer = await router.submit("named", model="slow")

    assert (answer.status_code, answer.json()["code"]) == (409, "request_id_reused")


async def test_of_many_wrong_fields_the_first_are_reported(router: Router) -> None:
    """Reporting thousands of fields would delay other requests."""
    wrong = {"x" * 1_000: 0} | {f"unknown-{number}": 0 for number in range(2_000)}

    answer = await router.http.post("/inference", json=GOOD | wrong)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_field")
    assert len(answer.json()["errors"]) == 50
    assert len(answer.content) < 10_000


@pytest.mark.parametrize("fence", ["-1", "1.5", str(2**62 + 1), "9" * 5_000])
async def test_a_cancel_with_an_invalid_fence_is_refused(router: Router, fence: str) -> None:
    answer = await router.http.delete(f"/inference/not-yet-{len(fence)}", params={"fence": fence})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_field")
    assert (await router.infer(f"not-yet-{len(fence)}", fence=1)).state.value == "completed"


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("PUT", "/inference", 405)])
async def test_unknown_routes_and_methods(router: Router, method: str, path: str, status: int) -> None:
    answer = await router.http.request(method, path)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


async def nothing_happened(router: Router, gpu: Gpusim, before: int) -> None:
    queues = await router.queues()
    assert (queues["waiting"], queues["running"]) == (0, 0)
    assert len(await gpu.ledger()) == before
