"""`/inference` over HTTP: waiting, joining, fencing, cancelling."""

import asyncio
import time

import pytest

from beacon_contracts.inference import InferenceState, InferenceView
from tests.fixtures.gpusim import Gpusim
from tests.fixtures.router import Router
from tests.fixtures.waiting import until


async def test_an_inference_is_answered_with_its_result(router: Router, gpu: Gpusim) -> None:
    view = await router.infer("plain", region="us-east", tier="premium", user_id="u1")

    assert view.state is InferenceState.COMPLETED
    assert "the prompt of plain" in view.output
    assert (view.requested_region, view.actual_region, view.backend) == ("US", "US", "us-1")
    assert [attempt.outcome for attempt in view.tries] == ["completed"]
    assert view.failure is None


async def test_respond_async_returns_202_with_a_location(router: Router) -> None:
    answer = await router.submit("later", model="slow", prefer="respond-async")

    assert answer.status_code == 202
    assert answer.headers["location"] == "/inference/later"
    assert answer.headers["preference-applied"] == "respond-async"
    view = await router.get("later")
    assert view.state in (InferenceState.RUNNING, InferenceState.WARMING)
    assert (await router.cancel("later")).status_code == 200


async def test_wait_answers_202_when_the_time_is_over(router: Router) -> None:
    answer = await router.submit("patient", model="slow", prefer="wait=0")

    assert answer.status_code == 202
    assert (await router.get("patient", prefer="wait=1")).state is not InferenceState.COMPLETED
    await router.cancel("patient")
    assert (await router.get("patient", prefer="wait=1")).state is InferenceState.CANCELLED


async def test_a_long_poll_ends_with_the_run(router: Router, gpu: Gpusim) -> None:
    await gpu.add_fault(kind="slow_run", extra_s=0.3, next=1)
    await router.submit("polled", prefer="respond-async")

    view = await router.get("polled", prefer="wait=20")

    assert view.state is InferenceState.COMPLETED


async def test_the_same_id_joins_the_run(router: Router, gpu: Gpusim) -> None:
    await gpu.add_fault(kind="slow_run", extra_s=0.2, next=1)
    views = await asyncio.gather(*(router.infer("joined") for _ in range(5)))

    assert len({view.output for view in views}) == 1
    assert len(await gpu.ledger(request_id="joined")) == 1


async def test_ids_with_special_characters_are_found(router: Router) -> None:
    odd = "exe_é/../x?y=1#z 0.0"
    answer = await router.submit(odd, prefer="respond-async")
    assert answer.status_code in (200, 202)
    if answer.status_code == 202:
        answer = await router.http.get(answer.headers["location"], headers={"prefer": "wait=10"})

    assert InferenceView.model_validate_json(answer.content).request_id == odd


async def test_a_lower_fence_is_409(router: Router) -> None:
    await router.submit("fenced", model="slow", fence=5, prefer="respond-async")

    answer = await router.submit("fenced", model="slow", fence=4)
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_fence")
    refused = await router.cancel("fenced", fence=4)
    assert (refused.status_code, refused.json()["code"]) == (409, "stale_fence")
    assert (await router.cancel("fenced", fence=5)).json()["state"] == "cancelled"


async def test_a_failed_run_is_200_with_its_failure(router: Router, gpu: Gpusim) -> None:
    await gpu.add_fault(kind="error", status=500, next=1)
    view = await router.infer("broken", fence=1)

    assert view.state is InferenceState.FAILED
    assert view.failure is not None
    assert (view.failure.code, view.failure.retryable) == ("backend_error", False)
    assert view.failure.details == {"status": 500}
    assert (await router.infer("broken", fence=1)).state is InferenceState.FAILED
    assert (await router.infer("broken", fence=2)).state is InferenceState.COMPLETED


async def test_a_cancelled_run_leaves_the_backend(router: Router, gpu: Gpusim) -> None:
    await router.submit("dropped", model="slow", prefer="respond-async")

    async def arrived() -> bool:
        return bool(await gpu.ledger(request_id="dropped"))

    await until(arrived, "the run is on the backend")
    answer = await router.cancel("dropped")
    assert answer.json()["state"] == "cancelled"

    async def aborted() -> bool:
        return [call["outcome"] for call in await gpu.ledger(request_id="dropped")] == ["aborted"]

    await until(aborted, "the backend saw the client leave")


async def test_a_queued_inference_shows_its_wait_reason(router: Router) -> None:
    busy = [f"busy-{number}" for number in range(4)]
    for request in busy:
        await router.submit(request, model="slow", prefer="respond-async")
    waiting = InferenceView.model_validate_json(
        (await router.submit("in-line", model="slow", prefer="respond-async")).content
    )

    assert waiting.state is InferenceState.QUEUED
    assert waiting.position == 1
    assert waiting.eta is not None
    assert waiting.eta.p50_s <= waiting.eta.p90_s
    assert waiting.waiting_for
    for request in ("in-line", *busy):
        await router.cancel(request)


async def test_start_by_in_the_past_is_504_and_uses_no_gpu(router: Router, gpu: Gpusim) -> None:
    answer = await router.submit("late", start_by=time.time() - 1)

    assert (answer.status_code, answer.json()["code"]) == (504, "start_by_passed")
    assert await gpu.ledger(request_id="late") == []


async def test_an_inference_queued_past_start_by_is_504(router: Router, gpu: Gpusim) -> None:
    busy = [f"hog-{number}" for number in range(4)]
    for request in busy:
        await router.submit(request, model="slow", prefer="respond-async")

    answer = await router.submit("in-vain", model="slow", start_by=time.time() + 0.2)

    assert (answer.status_code, answer.json()["code"]) == (504, "start_by_passed")
    assert await gpu.ledger(request_id="in-vain") == []
    for request in busy:
        await router.cancel(request)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_unknown_inference_is_404(router: Router, method: str) -> None:
    answer = await router.http.request(method, "/inference/unknown")

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_inference")
    assert answer.headers["content-type"] == "application/problem+json"
