"""Faults as clients receive them."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.fixtures.gpusim import Gpusim

CHAT = {"model": "llama", "messages": [{"role": "user", "content": "Why?"}]}


async def call(gpu: Gpusim, model: str = "llama") -> httpx.Response:
    return await gpu.http.post(
        "/modal", json={"request_id": "r-1", "model": model, "input": {"prompt": "Why?"}}
    )


async def outcomes(gpu: Gpusim) -> list[str]:
    return [entry["outcome"] for entry in await gpu.ledger()]


async def test_the_next_calls_get_the_chosen_status_and_retry_after(gpu: Gpusim) -> None:
    await gpu.add_fault(kind="error", status=503, retry_after_s=7, next=2)
    responses = [await call(gpu) for _ in range(3)]
    assert [response.status_code for response in responses] == [503, 503, 200]
    assert responses[0].headers["retry-after"] == "7"
    assert responses[0].json()["success"] is False
    assert await outcomes(gpu) == ["error", "error", "completed"]


async def test_an_error_can_occur_during_a_run(gpu: Gpusim) -> None:
    await gpu.add_fault(kind="error", status=500, after_s=0.05, next=1)
    assert (await call(gpu, "slow")).status_code == 500
    [entry] = await gpu.ledger()
    assert entry["started"] is not None
    assert entry["ended"] - entry["arrived"] > 0.04


async def test_a_fault_of_one_model_leaves_the_others_alone(gpu: Gpusim) -> None:
    await gpu.add_fault(kind="error", model="cold")
    assert (await call(gpu, "llama")).status_code == 200
    assert (await call(gpu, "cold")).status_code == 500
    await gpu.clear_faults()
    assert (await call(gpu, "cold")).status_code == 200


async def test_a_hang_holds_its_slot_until_the_client_leaves(gpu: Gpusim) -> None:
    await gpu.add_fault(kind="hang", next=1)
    with pytest.raises(httpx.ReadTimeout):
        await gpu.http.post("/v1/execute", json={"meta": {"service_name": "x"}}, timeout=0.3)
    await gpu.wait_running(0)
    assert await outcomes(gpu) == ["aborted"]


async def test_held_runs_complete_when_released(gpu: Gpusim) -> None:
    await gpu.hold()
    calls = [asyncio.ensure_future(call(gpu)) for _ in range(2)]
    await gpu.wait_running(2)
    assert await gpu.release(most=1) == 1
    await gpu.wait_running(1)
    calls.append(asyncio.ensure_future(call(gpu)))
    await gpu.wait_running(2)
    assert await gpu.release() == 2
    assert [response.status_code for response in await asyncio.gather(*calls)] == [200, 200, 200]
    assert (await call(gpu)).status_code == 200


async def test_a_slow_start_counts_as_load_and_a_slow_run_as_run(gpu: Gpusim) -> None:
    await gpu.add_fault(kind="slow_start", extra_s=0.06, next=1)
    await gpu.add_fault(kind="slow_run", extra_s=0.07, next=1)
    first, second = (await call(gpu)).json()["metrics"], (await call(gpu)).json()["metrics"]
    assert first["load_s"] > 0.05
    assert second["load_s"] == 0
    assert second["run_s"] > 0.06


async def test_a_reset_connection_is_an_error_of_the_connection(gpu: Gpusim) -> None:
    await gpu.add_fault(kind="reset", next=1)
    with pytest.raises(httpx.ReadError):
        await call(gpu)
    assert (await call(gpu)).status_code == 200
    assert await outcomes(gpu) == ["reset", "completed"]


async def test_the_empty_fault_is_a_completed_call(gpu: Gpusim) -> None:
    await gpu.add_fault(kind="empty", next=2)
    answer = (await call(gpu)).json()
    assert answer["success"] is True
    assert answer["output"] == ""
    chat = (await gpu.http.post("/v1/chat/completions", json=CHAT)).json()
    assert chat["choices"][0]["message"]["content"] == ""
    assert chat["choices"][0]["finish_reason"] == "stop"


async def test_faulty_bodies(gpu: Gpusim) -> None:
    for kind in ("no_body", "bad_json", "wrong_content_type", "truncated"):
        await gpu.add_fault(kind=kind, next=1)
    empty, broken, page = await call(gpu), await call(gpu), await call(gpu)
    assert (empty.status_code, empty.content) == (200, b"")
    with pytest.raises(json.JSONDecodeError):
        broken.json()
    assert page.headers["content-type"].startswith("text/html")
    with pytest.raises(httpx.RemoteProtocolError):
        await call(gpu)
    assert await outcomes(gpu) == ["completed"] * 4


async def stream(gpu: Gpusim) -> tuple[int, str, list[str]]:
    async with gpu.http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as response:
        lines = [line async for line in response.aiter_lines() if line]
        return response.status_code, response.headers["content-type"], lines


async def test_faulty_streams(gpu: Gpusim) -> None:
    await gpu.add_fault(kind="error", status=502, next=1)
    await gpu.add_fault(kind="bad_json", next=1)
    await gpu.add_fault(kind="wrong_content_type", next=1)
    await gpu.add_fault(kind="truncated", next=1)
    assert (await stream(gpu))[0] == 502
    status, kind, lines = await stream(gpu)
    assert (status, kind.split(";")[0]) == (200, "text/event-stream")
    assert sum(not is_json(line.removeprefix("data: ")) for line in lines if line != "data: [DONE]") == 1
    assert (await stream(gpu))[1].startswith("text/html")
    with pytest.raises(httpx.RemoteProtocolError):
        await stream(gpu)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


async def test_a_stream_that_hangs_is_ended_by_its_client(gpu: Gpusim) -> None:
    await gpu.add_fault(kind="hang", next=1)
    async with gpu.http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as response:
        first = await anext(response.aiter_lines())
        assert '"role":"assistant"' in first
    await gpu.wait_running(0)
    assert await outcomes(gpu) == ["aborted"]


async def test_a_probability_applies_to_a_share_of_the_calls(gpu: Gpusim) -> None:
    await gpu.set_slots(32)
    await gpu.add_fault(kind="error", probability=0.5)
    responses = await asyncio.gather(*(call(gpu) for _ in range(200)))
    failed = sum(response.status_code == 500 for response in responses)
    assert 60 < failed < 140


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "gremlins"},
        {"kind": "error", "probability": 0},
        {"kind": "error", "status": 200},
        {"kind": "error", "next": 0},
        {"kind": "error", "when": "always"},
    ],
)
async def test_an_invalid_rule_is_refused(gpu: Gpusim, rule: dict[str, Any]) -> None:
    assert (await gpu.http.post("/control/faults", json=rule)).status_code == 422
    assert (await gpu.http.get("/control/faults")).json() == {"faults": []}


async def test_faults_of_media(gpu: Gpusim) -> None:
    plain = await call(gpu, "flux")
    await gpu.add_fault(kind="mislabelled", next=1)
    await gpu.add_fault(kind="huge", size=3_000_000, next=2)
    await gpu.add_fault(kind="truncated", next=1)
    page, huge, text = await call(gpu, "flux"), await call(gpu, "flux"), await call(gpu)
    assert page.headers["content-type"] == "image/png"
    assert page.content.startswith(b"<html>")
    assert len(huge.content) == int(huge.headers["content-length"]) == 3_000_000
    assert huge.content.startswith(plain.content[:100])
    assert len(text.content) == 3_000_000
    assert text.json()["success"] is True
    with pytest.raises(httpx.RemoteProtocolError):
        await call(gpu, "flux")


async def test_an_endless_answer_ends_when_the_client_disconnects(gpu: Gpusim) -> None:
    await gpu.add_fault(kind="endless", next=1)
    body = {"model": "flux", "input": {"prompt": "Why?"}}
    size = 0
    async with gpu.http.stream("POST", "/modal", json=body) as response:
        assert "content-length" not in response.headers
        async for part in response.aiter_bytes():
            size += len(part)
            if size > 5_000_000:
                break
    assert (await call(gpu, "flux")).status_code == 200
