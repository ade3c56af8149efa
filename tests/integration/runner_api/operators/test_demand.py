"""The demand for GPUs: jobs in the runner's queues and work at the routers."""

from typing import Any

import pytest

from beacon_contracts.accounts import Scope
from beacon_contracts.inference import EtaView
from beacon_contracts.router_status import ModelWork, QueueStatus, RegionStatus
from beacon_runner.ports.router import RouterStatus
from tests.integration.runner_api.harness import GENERATION, MATRIX, PIPELINE, ApiHarness, Caller
from tests.integration.runner_store.harness import judged


@pytest.fixture
async def scaler(api: ApiHarness) -> Caller:
    return await api.user("keda", "free", Scope.SERVICE)


def router(name: str = "http://router", *, run_s: float = 4.0, **regions: dict[str, Any]) -> RouterStatus:
    """A router with this work of the model flux by region; `wait_s` is the median wait."""
    found = {}
    for region, given in regions.items():
        wait_s = given.pop("wait_s", None)
        work = {"waiting": 0, "running": 0, "ahead_s": 0.0, "run_s": run_s, "load_s": 2.0, "slots": 2}
        eta = {} if wait_s is None else {"flux": EtaView(p50_s=wait_s, p90_s=2 * wait_s)}
        found[region] = RegionStatus(
            region=region,
            concurrency=2,
            main=0,
            front=0,
            retry=0,
            completed=0,
            failed=0,
            cancelled=0,
            slots=2,
            busy=0,
            healthy=True,
            estimated_wait=eta,
            work={"flux": ModelWork.model_validate(work | given)},
        )
    queues = QueueStatus(regions=found, global_retry=0, backing_off=0, waiting=0, running=0, held_bytes=0)
    return RouterStatus(name, 0, queues)


async def demand(api: ApiHarness, caller: Caller, **query: Any) -> Any:
    """With counts of now."""
    await api.clock.advance(6)
    return await caller.get("/admin/demand", 200, **query)


async def waiting(api: ApiHarness, caller: Caller) -> dict[tuple[str, str], int]:
    found = (await demand(api, caller))["models"]
    return {(one["model"], one["region"]): one["waiting"] for one in found if one["waiting"]}


async def test_jobs_of_every_kind_count_by_model_and_region(
    api: ApiHarness, anna: Caller, scaler: Caller
) -> None:
    for body in (GENERATION, GENERATION, MATRIX, PIPELINE):
        await anna.submit(body)
    step = (await anna.get("/api/v1/features"))["features"]
    (first,) = (one["steps"][0]["model"] for one in step if one["name"] == "text_only")
    expected = {("flux", "US"): 2, ("llama3.2-1b", "US"): 2, ("llama3.2-1b", "EU"): 2}
    found = await waiting(api, scaler)
    pipeline = {target: count for target, count in found.items() if target[0] == first}
    assert sum(pipeline.values()) == 1, "only its current stage counts"
    assert {target: count for target, count in found.items() if target not in pipeline} == expected


async def test_work_counts_once_while_it_moves_to_a_router(
    api: ApiHarness, anna: Caller, scaler: Caller
) -> None:
    await anna.submit(MATRIX)
    (claimed,) = await api.claim()
    assert sum((await waiting(api, scaler)).values()) == 4, "a worker has it, and nothing was sent"
    await api.store.start(claimed)
    assert sum((await waiting(api, scaler)).values()) == 3, "the routers count the first one"
    await api.store.claims.record([judged(claimed, "a", "b", "c", "d")])
    assert await waiting(api, scaler) == {}


async def test_work_that_does_not_start_now_is_not_counted(
    api: ApiHarness, anna: Caller, admin: Caller, scaler: Caller
) -> None:
    await anna.submit(GENERATION | {"not_before": "2100-01-01T00:00:00Z"})
    ben = await api.user("ben")
    await ben.submit(GENERATION)
    user = (await ben.get("/api/v1/me"))["user_id"]
    await admin.post(f"/admin/users/{user}", {"disabled": True})
    assert await waiting(api, scaler) == {}


async def test_gpu_seconds_use_the_durations_that_routers_measure(
    api: ApiHarness, anna: Caller, scaler: Caller
) -> None:
    for _ in range(3):
        await anna.submit(GENERATION)
    (before,) = (await demand(api, scaler, model="flux", region="US"))["models"]
    assert before["gpu_seconds"] == 3 * before["run_s"], "as configured while nothing is measured"
    api.router.statuses = [
        router(US={"waiting": 2, "running": 1, "ahead_s": 9.0, "wait_s": 5.0}, run_s=4.0),
        router("http://other", US={"waiting": 1, "ahead_s": 6.0, "wait_s": 3.0}, run_s=6.0),
    ]
    (found,) = (await demand(api, scaler, model="flux", region="us-east"))["models"]
    assert (found["waiting"], found["running"], found["run_s"]) == (6, 1, 5.0)
    assert found["gpu_seconds"] == 3 * 5.0 + 9.0 + 6.0
    assert (found["wait_p50_s"], found["wait_p90_s"]) == (3.0 + 15.0 / 2, 6.0 + 15.0 / 2)


@pytest.mark.parametrize(("target_wait_s", "slots"), [(1, 7), (10, 6), (30, 2), (3_600, 1)])
async def test_slots_are_computed_for_a_target(
    api: ApiHarness, scaler: Caller, target_wait_s: float, slots: int
) -> None:
    api.router.statuses = [router(US={"waiting": 5, "running": 2, "ahead_s": 58.0})]
    found = await demand(api, scaler, model="flux", target_wait_s=target_wait_s)
    assert (found["target_wait_s"], found["total"]["slots_needed"]) == (target_wait_s, slots)


async def test_nothing_is_needed_without_work(api: ApiHarness, scaler: Caller) -> None:
    api.router.statuses = [router(US={})]
    total = (await demand(api, scaler, model="flux"))["total"]
    assert total == {"waiting": 0, "running": 0, "gpu_seconds": 0.0, "slots": 2, "slots_needed": 0}


async def test_a_backend_scaled_to_zero_has_demand_without_an_estimate(
    api: ApiHarness, anna: Caller, scaler: Caller
) -> None:
    api.router.statuses = [router(US={"waiting": 1, "ahead_s": 4.0, "slots": 0})]
    await anna.submit(GENERATION)
    (found,) = (await demand(api, scaler, model="flux", region="US"))["models"]
    assert (found["gpu_seconds"], found["slots"], found["slots_needed"]) == (8.0, 0, 1)
    assert (found["wait_p50_s"], found["wait_p90_s"]) == (None, None)


async def test_work_for_a_paused_model_needs_no_slots(
    api: ApiHarness, anna: Caller, admin: Caller, scaler: Caller
) -> None:
    await api.configure()
    await admin.post("/admin/models/flux/pause")
    await api.follow_config()
    api.router.statuses = [router(US={"waiting": 2, "running": 1, "ahead_s": 9.0}, run_s=4.0)]
    await anna.submit(GENERATION)
    (found,) = (await demand(api, scaler, model="flux", region="US"))["models"]
    assert (found["waiting"], found["gpu_seconds"], found["slots_needed"]) == (3, 1.0, 1)


async def test_the_sum_of_several_models_and_regions(api: ApiHarness, anna: Caller, scaler: Caller) -> None:
    await anna.submit(MATRIX)
    await anna.submit(GENERATION)
    found = await demand(api, scaler, model=["llama3.2-1b", "flux"], region=["US", "EU"])
    assert found["total"]["waiting"] == 5
    assert {one["region"] for one in found["models"]} == {"US", "EU"}


async def test_a_router_without_answer_is_named(api: ApiHarness, anna: Caller, scaler: Caller) -> None:
    await anna.submit(GENERATION)
    api.router.statuses = [RouterStatus("http://dead", 0, None, "refused")]
    found = await demand(api, scaler)
    assert (found["unavailable_routers"], found["total"]["waiting"]) == (["http://dead"], 1)


@pytest.mark.parametrize(
    ("query", "field"),
    [({"model": "gpt-9"}, "model"), ({"region": "MARS"}, "region"), ({"target_wait_s": 0}, "target_wait_s")],
)
async def test_invalid_queries_name_the_field(
    api: ApiHarness, scaler: Caller, query: dict[str, Any], field: str
) -> None:
    answer = await scaler.get("/admin/demand", 422, **query)
    assert answer["errors"][0]["field"] == field
