"""Calls over real HTTP: dialects, slots, disconnects and the ledger."""

import asyncio
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.fixtures.gpusim import Gpusim
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until


def modal(model: str, request_id: str = "r-1", prompt: str = "Why?") -> dict[str, Any]:
    return {"request_id": request_id, "model": model, "input": {"prompt": prompt}, "params": {}}


async def test_a_modal_call_is_answered_and_in_the_ledger(gpu: Gpusim) -> None:
    response = await gpu.http.post("/modal", json=modal("steady"))
    answer = response.json()
    assert response.status_code == 200
    assert answer["success"] is True
    assert (answer["model"], answer["region"]) == ("steady", "EU")
    assert "Why?" in answer["output"]
    [call] = await gpu.ledger()
    assert (call["request_id"], call["dialect"], call["outcome"]) == ("r-1", "modal", "completed")
    assert call["arrived"] <= call["started"] < call["ended"]
    assert call["run_s"] > 0.04
    assert answer["metrics"]["run_s"] == pytest.approx(call["run_s"], abs=1e-6)


async def test_the_ledger_uses_the_monotonic_clock_of_the_machine(gpu: Gpusim) -> None:
    """Without tolerance, because an offset of a millisecond shows calls as concurrent that were not."""
    before = time.monotonic()
    await gpu.http.post("/modal", json=modal("steady"))
    after = time.monotonic()
    [call] = await gpu.ledger()
    assert before <= call["arrived"] < call["ended"] <= after


async def test_an_execute_call_is_answered_and_in_the_ledger(gpu: Gpusim) -> None:
    meta = {
        "job_id": "j",
        "step_index": 0,
        "service_name": "prompt_enhancer",
        "attempt": 1,
        "request_id": "r-2",
    }
    body = {"meta": meta, "payload": {"params": {"prompt": "A city"}, "context": {}}}
    answer = (await gpu.http.post("/v1/execute", json=body)).json()
    assert answer["data"]["enhanced_prompt"].startswith("A city")
    assert answer["metrics"]["processing_time_ms"] >= 0
    [call] = await gpu.ledger(model="prompt_enhancer")
    assert (call["request_id"], call["dialect"]) == ("r-2", "execute")


async def test_more_calls_than_slots_are_refused_and_counted(gpu: Gpusim) -> None:
    await gpu.set_models({"steady": {"run": 0.5}})
    responses = await asyncio.gather(
        *(gpu.http.post("/modal", json=modal("steady", f"r-{n}")) for n in range(10))
    )
    statuses = sorted(response.status_code for response in responses)
    assert statuses == [200] * 4 + [429] * 6
    refused = next(response for response in responses if response.status_code == 429)
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["success"] is False
    stats = await gpu.stats()
    assert (stats["max_concurrent"], stats["excess"]) == (4, 6)
    assert stats["max_concurrent_by_model"] == {"steady": 4}
    assert stats["outcomes"] == {"completed": 4, "refused": 6}
    assert len(await gpu.ledger()) == 10


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/modal", modal("slow")),
        ("/v1/chat/completions", {"model": "slow", "messages": [{"role": "user", "content": "Why?"}]}),
        ("/v1/execute", {"meta": {"service_name": "slow", "request_id": "r-1"}, "payload": {}}),
    ],
)
async def test_a_disconnect_frees_the_slot_at_once(gpu: Gpusim, path: str, body: dict[str, Any]) -> None:
    await gpu.set_slots(1)
    calling = asyncio.ensure_future(gpu.http.post(path, json=body, headers={"X-Request-Id": "r-1"}))
    await gpu.wait_running(1)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await gpu.wait_running(0)
    [call] = await gpu.ledger(request_id="r-1")
    assert call["outcome"] == "aborted"
    assert (await gpu.http.post("/modal", json=modal("llama"))).status_code == 200


async def test_a_disconnect_frees_the_slot_for_a_call_sent_after_it(gpu: Gpusim) -> None:
    """The process is stopped meanwhile, so that it reads both in the same loop iteration."""
    await gpu.set_slots(1)
    body = b'{"meta": {"service_name": "slow"}, "payload": {}}'
    request = b"POST /v1/execute HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    host, port = gpu.url.removeprefix("http://").split(":")
    running = socket.create_connection((host, int(port)))
    running.sendall(request)
    await gpu.wait_running(1)
    for calls in range(2, 12):
        following = socket.create_connection((host, int(port)))
        gpu.process.send(signal.SIGSTOP)
        running.close()
        following.sendall(request)
        gpu.process.send(signal.SIGCONT)
        running = following
        await until(_calls_in_ledger(gpu, calls), f"{calls} calls in the ledger")
    running.close()
    await gpu.wait_running(0)
    assert (await gpu.stats())["excess"] == 0


def _calls_in_ledger(gpu: Gpusim, count: int) -> Callable[[], Awaitable[bool]]:
    async def reached() -> bool:
        return len(await gpu.ledger()) == count

    return reached


async def test_calls_for_a_cold_model_share_one_load(gpu: Gpusim) -> None:
    answers = await asyncio.gather(*(gpu.http.post("/modal", json=modal("cold", f"r-{n}")) for n in range(4)))
    assert all(answer.status_code == 200 for answer in answers)
    assert (await gpu.stats())["loads"] == {"cold": 1}
    assert all(call["load_s"] > 0 for call in await gpu.ledger(model="cold"))
    warm = (await gpu.http.post("/modal", json=modal("cold", "warm"))).json()
    assert warm["metrics"]["load_s"] == 0


async def test_a_second_model_evicts_the_first_if_one_fits(gpu: Gpusim) -> None:
    for model in ("llama", "cold", "llama"):
        await gpu.http.post("/modal", json=modal(model))
    stats = await gpu.stats()
    assert stats["loads"] == {"llama": 2, "cold": 1}
    assert stats["evictions"] == 2
    assert (await gpu.state())["loaded_models"] == {"llama": 0}
    await gpu.set_slots(4, loaded_models=2)
    for model in ("cold", "llama", "cold"):
        await gpu.http.post("/modal", json=modal(model))
    assert (await gpu.stats())["loads"] == {"llama": 2, "cold": 2}


async def test_the_proxy_redirects_a_long_run_and_the_client_polls(gpu: Gpusim) -> None:
    await gpu.set_models({"long": {"run": 0.5}})
    await gpu.set_proxy_timeout(0.1)
    cut = await gpu.http.post("/modal", json=modal("long"))
    assert cut.status_code == 303
    location = cut.headers["location"]
    assert location.startswith(f"{gpu.url}/modal?__modal_function_call_id=")
    polls = 0
    while (answer := await gpu.http.get(location)).status_code == 303:
        assert answer.headers["location"] == location
        polls += 1
    assert polls >= 1
    assert answer.json()["success"] is True
    assert (await gpu.http.post(location)).json() == answer.json(), "it can be fetched again, by POST too"
    [call] = await gpu.ledger()
    assert call["outcome"] == "completed"


async def test_a_redirected_run_continues_without_polls(gpu: Gpusim) -> None:
    await gpu.set_models({"long": {"run": 0.25}})
    await gpu.set_proxy_timeout(0.05)
    async with httpx.AsyncClient(base_url=gpu.url, timeout=WAIT_TIMEOUT_S) as client:
        assert (await client.post("/modal", json=modal("long"))).status_code == 303
    await gpu.wait_running(0)
    [call] = await gpu.ledger()
    assert call["outcome"] == "completed"


async def test_an_unknown_call_is_not_found(gpu: Gpusim) -> None:
    response = await gpu.http.get("/modal?__modal_function_call_id=fc-404404")
    assert response.status_code == 404


async def test_many_instant_calls_are_all_accounted_for(gpu: Gpusim) -> None:
    await gpu.set_slots(64)
    bodies = [modal("llama", f"r-{n}") for n in range(300)]
    responses = await asyncio.gather(*(gpu.http.post("/modal", json=body) for body in bodies))
    assert {response.status_code for response in responses} == {200}
    calls = await gpu.ledger()
    assert {call["request_id"] for call in calls} == {body["request_id"] for body in bodies}
    assert (await gpu.state())["running"] == 0


async def test_reset_ends_runs_and_answers_their_clients(gpu: Gpusim) -> None:
    calling = asyncio.ensure_future(
        gpu.http.post("/v1/execute", json={"meta": {"service_name": "slow"}, "payload": {}})
    )
    await gpu.wait_running(1)
    await gpu.reset()
    response = await calling
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "aborted"
    assert await gpu.ledger() == []
