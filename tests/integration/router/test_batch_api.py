"""`POST /inference/batch`: many inferences in one exchange, one line per answer."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from beacon_contracts.inference import MAX_BATCH_ENTRIES, InferenceState
from tests.fixtures.gpusim import Gpusim
from tests.fixtures.router import TOKEN, Router
from tests.fixtures.waiting import until
from tests.fixtures.wire import wire_to


def entry(request_id: str, **fields: Any) -> dict[str, Any]:
    return {
        "request_id": request_id,
        "model": "m",
        "region": "US",
        "input": {"prompt": f"prompt of {request_id}"},
        **fields,
    }


@asynccontextmanager
async def exchange(
    router: Router, *requests: Any, poll: tuple[Any, ...] = (), wait_s: int = 20, progress: bool = False
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The lines of the response, as they arrive; with `progress` also the interim reports."""
    body = {"requests": list(requests), "poll": list(poll)}
    headers = {"prefer": f"wait={wait_s}"}
    async with router.http.stream("POST", "/inference/batch", json=body, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "application/x-ndjson"

        async def lines() -> AsyncIterator[dict[str, Any]]:
            async for text in answer.aiter_lines():
                line = json.loads(text)
                if progress or line["status"] != 102:
                    yield line

        yield lines()


async def answers(router: Router, *requests: Any, **more: Any) -> list[dict[str, Any]]:
    async with exchange(router, *requests, **more) as lines:
        return [line async for line in lines]


async def waiters(router: Router) -> float:
    text = (await router.http.get("/metrics")).text
    return float(text.split("\nbeacon_router_waiters ")[1].split("\n")[0])


async def test_each_line_arrives_when_its_inference_has_ended(router: Router) -> None:
    async with exchange(router, entry("held", model="slow"), entry("quick")) as lines:
        quick = await anext(lines)
        assert (quick["request_id"], quick["status"]) == ("quick", 200)
        assert quick["document"]["state"] == "completed"
        assert "prompt of quick" in quick["document"]["output"]
        await router.cancel("held")
        held = await anext(lines)
        assert (held["request_id"], held["document"]["state"]) == ("held", "cancelled")
        assert [line async for line in lines] == []


async def test_a_start_has_a_line_that_is_no_answer_yet(router: Router) -> None:
    """Four run at once: the fifth one starts when one of them has ended."""
    names = [f"held-{number}" for number in range(5)]
    async with exchange(router, *(entry(name, model="slow") for name in names), progress=True) as lines:
        for name in names[:4]:
            started = await anext(lines)
            assert (started["request_id"], started["status"]) == (name, 102)
            assert started["document"]["state"] in ("warming", "running")
        await router.cancel(names[0])
        changes = [await anext(lines), await anext(lines)]
        assert [(line["request_id"], line["status"]) for line in changes] == [
            (names[0], 200),
            (names[4], 102),
        ]
        async with exchange(router, poll=(names[4],), progress=True) as polled:
            assert (await anext(polled))["status"] == 102
        for name in names[1:]:
            await router.cancel(name)
        assert sorted([line["status"] async for line in lines]) == [200] * 4


async def test_a_short_run_has_one_line(router: Router) -> None:
    async with exchange(router, *(entry(f"short-{n}") for n in range(10)), progress=True) as lines:
        assert [line["status"] async for line in lines] == [200] * 10


async def test_an_inference_that_waits_at_the_timeout_gets_202(router: Router) -> None:
    first = await answers(
        router, entry("patient-1", model="slow"), entry("patient-2", model="slow"), wait_s=0
    )
    assert {(line["request_id"], line["status"]) for line in first} == {
        ("patient-1", 202),
        ("patient-2", 202),
    }
    polled = await answers(router, poll=("patient-1",), wait_s=1)
    assert [(line["status"], line["document"]["state"] in ("warming", "running")) for line in polled] == [
        (202, True)
    ]
    for request_id in ("patient-1", "patient-2"):
        await router.cancel(request_id)


async def test_every_entry_gets_the_answer_of_the_single_route(router: Router) -> None:
    await router.infer("fenced", fence=5)
    await router.submit("running", model="slow", fence=5, prefer="respond-async")
    entries = [
        entry("done"),
        entry("bad-model", model="gpt-9"),
        entry("bad-field", tires="free"),
        entry("running", model="slow", fence=4),
    ]
    late = entry("late", start_by=time.time() - 1)
    by_id = {
        line["request_id"]: line for line in await answers(router, *entries, late, poll=("unknown", "fenced"))
    }
    assert len(by_id) == 7
    for given in entries:
        single = await router.http.post("/inference", json=given)
        line = by_id[given["request_id"]]
        assert (line["status"], line["document"]) == (single.status_code, single.json())
    for polled in ("unknown", "fenced"):
        single = await router.http.get(f"/inference/{polled}")
        assert (by_id[polled]["status"], by_id[polled]["document"]) == (single.status_code, single.json())
    assert (by_id["late"]["status"], by_id["late"]["document"]["code"]) == (504, "start_by_passed")
    await router.cancel("running")


async def test_a_malformed_entry_fails_alone(router: Router) -> None:
    lines = await answers(router, "text", {"model": "m"}, entry("x" * 121), entry("fine"), poll=(7,))
    statuses = sorted((line["request_id"] or "", line["status"]) for line in lines)
    assert statuses == [("", 422), ("", 422), ("", 422), ("fine", 200), ("x" * 121, 422)]


async def test_a_refusal_has_retry_after(router: Router, gpu: Gpusim) -> None:
    line, *_ = await answers(router, entry("nowhere", model="chat", region="EU", failover="pinned"))
    assert (line["status"], line["document"]["code"]) == (503, "no_backend")
    assert line["retry_after_s"] >= line["document"]["retry_after_s"] > 0


async def test_an_entry_that_is_given_twice_runs_once_and_is_answered_twice(
    router: Router, gpu: Gpusim
) -> None:
    lines = await answers(router, entry("twice"), entry("twice"), poll=("twice",))
    assert [(line["request_id"], line["status"]) for line in lines] == [("twice", 200)] * 3
    assert len(await gpu.ledger(request_id="twice")) == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"requests": 1}', 422),
        (b'{"asks": []}', 422),
        (json.dumps({"poll": ["x"] * (MAX_BATCH_ENTRIES + 1)}).encode(), 422),
        (json.dumps({"requests": [entry("large", input={"prompt": "x" * 100_000})]}).encode(), 413),
    ],
)
async def test_a_malformed_batch_is_refused(router: Router, body: bytes, status: int) -> None:
    answer = await router.http.post("/inference/batch", content=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_batch_needs_the_service_token(router: Router) -> None:
    answer = await router.http.post("/inference/batch", json={}, headers={"authorization": "Bearer no"})
    assert (answer.status_code, answer.json()["code"]) == (403, "wrong_token")


async def test_an_empty_batch_has_no_lines(router: Router) -> None:
    assert await answers(router) == []


async def test_after_a_disconnect_nothing_waits_and_the_inference_continues(router: Router) -> None:
    async with exchange(router, entry("left", model="slow"), entry("answered")) as lines:
        await anext(lines)
        assert await waiters(router) == 1

    async def none_left() -> bool:
        return await waiters(router) == 0

    await until(none_left, "the router waits for nothing")
    assert (await router.get("left")).state in (InferenceState.RUNNING, InferenceState.WARMING)
    await router.cancel("left")


async def test_a_client_that_does_not_read_blocks_no_other(router: Router) -> None:
    await router.infer("large", given={"prompt": "x" * 80_000})
    body = json.dumps({"poll": ["large"] * 1_000}).encode()
    head = f"POST /inference/batch HTTP/1.1\r\nhost: r\r\nauthorization: Bearer {TOKEN}\r\n"
    async with wire_to(router.url) as wire:
        await wire.send(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        async with exchange(router, *(entry(f"other-{number}") for number in range(20))) as lines:
            assert [line["status"] async for line in lines] == [200] * 20
    assert [line["status"] for line in await answers(router, poll=("large",) * 20)] == [200] * 20
