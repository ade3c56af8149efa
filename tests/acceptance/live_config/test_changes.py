"""Each kind of change while jobs run and wait, as the simulated GPUs and the users see it."""

import pytest

from tests.acceptance.live_config.conftest import Operator
from tests.fixtures.waiting import until

pytestmark = pytest.mark.stack

LLAMA = "llama3.2-1b"


async def test_a_drained_backend_ends_its_runs_and_gets_no_more(operator: Operator) -> None:
    await operator.hold(LLAMA)
    first = await operator.submit(LLAMA)
    await operator.running(LLAMA, 1)
    await operator.change("POST", "/admin/backends/us-1/drain")
    second = await operator.submit(LLAMA)
    assert "us-1 is drained or has 0 slots" in await operator.waits_for(second)
    assert (await operator.backend("us-1"))["state"] == "draining"
    await operator.release()
    assert (await operator.ended(first))["status"] == "completed"

    async def drained() -> bool:
        return bool((await operator.backend("us-1"))["state"] == "drained")

    await until(drained, "the backend is drained")
    assert len(await operator.calls(LLAMA)) == 1
    await operator.change("POST", "/admin/backends/us-1/resume")
    assert (await operator.ended(second))["status"] == "completed"


async def test_a_smaller_cap_lets_runs_end_before_others_start(operator: Operator) -> None:
    await operator.hold(LLAMA)
    jobs = [await operator.submit(LLAMA) for _ in range(5)]
    await operator.running(LLAMA, 4)
    await operator.edit("groups", "modal", cap=1)
    await operator.release(3)
    await operator.running(LLAMA, 1)
    assert len(await operator.calls(LLAMA)) == 4
    await operator.release(1)
    await operator.running(LLAMA, 1)
    assert len(await operator.calls(LLAMA)) == 5
    await operator.release()
    assert {(await operator.ended(job))["status"] for job in jobs} == {"completed"}


async def test_a_cap_of_zero_holds_the_group_and_a_larger_one_frees_it(operator: Operator) -> None:
    await operator.edit("groups", "modal", cap=0)
    job = await operator.submit(LLAMA)
    await operator.waits_for(job)
    assert await operator.calls(LLAMA) == []
    await operator.edit("groups", "modal", cap=2)
    assert (await operator.ended(job))["status"] == "completed"


async def test_an_added_backend_takes_waiting_work_until_it_is_removed(operator: Operator) -> None:
    await operator.change("POST", "/admin/backends/us-1/drain")
    job = await operator.submit(LLAMA)
    await operator.waits_for(job)
    added = {
        "name": "us-2",
        "region": "US",
        "dialect": "openai",
        "url": f"{operator.stack.url('gpusim-us')}/v1",
        "models": [LLAMA, "brand-new"],
    }
    await operator.change("POST", "/admin/backends", added)
    (execution,) = (await operator.ended(job))["executions"]
    assert execution["backend"] == "us-2"
    assert (await operator.ended(await operator.submit("brand-new")))["status"] == "completed"
    await operator.change("DELETE", "/admin/backends/us-2")
    refused = await operator.http.post(
        "/api/v1/jobs", json={"kind": "generation", "model": "brand-new", "prompt": "x"}
    )
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "model")


async def test_work_of_a_removed_model_fails_with_its_reason_and_runs_end(operator: Operator) -> None:
    await operator.hold("music")
    running = [await operator.submit("music") for _ in range(4)]
    await operator.running("music", 4)
    at_router = await operator.submit("music")
    await operator.waits_for(at_router)
    (await operator.http.post("/admin/queues/high/pause")).raise_for_status()
    at_runner = await operator.submit("music")
    left = [model for model in (await operator.backend("us-1"))["models"] if model != "music"]
    refused = await operator.change("PATCH", "/admin/backends/us-1", {"models": left}, status=409)
    assert refused["stranded"] == [{"model": "music", "region": "US", "executions": 6, "jobs": 0}]
    await operator.change("PATCH", "/admin/backends/us-1", {"models": left}, force=True)
    (await operator.http.post("/admin/queues/high/resume")).raise_for_status()
    for job in (at_router, at_runner):
        failed = await operator.ended(job)
        (execution,) = failed["executions"]
        assert (failed["status"], execution["failure"]["code"]) == ("failed", "model_removed")
        page = (await operator.http.get(f"/api/v1/jobs/{job}/events", params={"after": 0})).json()
        assert page["events"][-1]["type"] == "JOB_FAILED"
    await operator.release()
    assert {(await operator.ended(job))["status"] for job in running} == {"completed"}


async def test_a_paused_model_waits_while_others_run(operator: Operator) -> None:
    await operator.change("POST", f"/admin/models/{LLAMA}/pause")
    waiting = await operator.submit(LLAMA)
    assert "the model is paused" in await operator.waits_for(waiting)
    assert (await operator.ended(await operator.submit("mistral-7b")))["status"] == "completed"
    assert await operator.calls(LLAMA) == []
    await operator.change("POST", f"/admin/models/{LLAMA}/resume")
    assert (await operator.ended(waiting))["status"] == "completed"


async def test_limits_prices_features_and_aliases_change_at_the_api(operator: Operator) -> None:
    newest = await operator.config()
    document = newest["document"]
    document["tiers"]["creator"]["pending_jobs"] = 7
    document["skip_prices"] = [{"price": 42}]
    document["regions"]["EU"]["aliases"] = ["mars"]
    document["features"]["short"] = {
        "steps": [{"name": "one", "model": LLAMA, "input": {"prompt": "{{ input.prompt }}"}}]
    }
    headers = {"if-match": f'"{newest["revision"]}"'}
    (await operator.http.put("/admin/config", json=document, headers=headers)).raise_for_status()

    async def read(path: str) -> str:
        answer = await operator.http.get(f"/api/v1/{path}", headers=operator.stack.user)
        return answer.raise_for_status().text

    for path, changed in (
        ("me", '"pending_jobs":{"limit":7'),
        ("skip-pricing", '"price":42'),
        ("regions", '"mars"'),
        ("features", '"short"'),
    ):

        async def seen(path: str = path, changed: str = changed) -> bool:
            return changed in (await read(path)).replace(" ", "")

        await until(seen, f"{path} has the change")
    piped = {"kind": "pipeline", "feature": "short", "input": {"prompt": "x"}, "region": "mars"}
    submitted = (await operator.http.post("/api/v1/jobs", json=piped)).raise_for_status()
    (execution,) = (await operator.ended(submitted.json()["job_id"]))["executions"]
    assert (execution["state"], execution["region"]) == ("completed", "EU")
