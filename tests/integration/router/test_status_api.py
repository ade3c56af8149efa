"""Status routes: queues, scheduler, health, metrics, documentation."""

from prometheus_client.parser import text_string_to_metric_families

from beacon_contracts.router_status import QueueStatus, RegionStatus, SchedulerStatus
from tests.fixtures.gpusim import Gpusim
from tests.fixtures.router import Router


async def test_queues_show_running_and_waiting_requests(router: Router, gpu: Gpusim) -> None:
    running = [f"run-{number}" for number in range(4)]
    for request in running:
        await router.submit(request, model="slow", tier="premium", prefer="respond-async")
    await router.submit("wait-1", model="slow", tier="free", prefer="respond-async")

    status = QueueStatus.model_validate(await router.queues())
    region = status.regions["US"]

    assert {run.request_id for run in region.running} == set(running)
    assert {run.tier for run in region.running} == {"premium"}
    assert (region.main, region.retry, status.global_retry) == (1, 0, 0)
    assert region.by_model["slow"] == 1
    assert region.by_tier == {"free": 1}
    assert sum(region.requests_by_user.values()) == 5
    assert region.estimated_wait["slow"].p50_s > 0
    (backend,) = [backend for backend in region.backends if backend.name == "us-1"]
    assert (backend.slots, backend.busy, backend.breaker.state) == (4, 4, "closed")
    assert (status.waiting, status.running) == (1, 4)
    for request in ("wait-1", *running):
        await router.cancel(request)


async def test_results_are_counted(router: Router, gpu: Gpusim) -> None:
    before = QueueStatus.model_validate(await router.queues()).regions["US"]
    await router.infer("counted-1")
    await gpu.add_fault(kind="error", status=500, next=1)
    await router.infer("counted-2")

    after = QueueStatus.model_validate(await router.queues()).regions["US"]

    assert (after.completed - before.completed, after.failed - before.failed) == (1, 1)


async def test_one_region_under_any_of_its_names(router: Router) -> None:
    for name in ("US", "us", "us-east", "US-East"):
        answer = await router.http.get(f"/queue/status/{name}")
        assert RegionStatus.model_validate_json(answer.content).region == "US"
    answer = await router.http.get("/queue/status/mars")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_region")


async def test_the_scheduler_shows_its_settings(router: Router) -> None:
    await router.infer("seen")

    status = SchedulerStatus.model_validate_json((await router.http.get("/status")).content)

    assert status.scheduler.max_batch_size == 3
    assert status.scheduler.starvation_timeouts["free"] == 120
    assert status.scheduler.last_model_used is not None
    assert set(status.estimated_wait) == {"m", "slow", "chat"}


async def test_health_needs_no_token(router: Router) -> None:
    del router.http.headers["authorization"]

    assert (await router.http.get("/healthz")).json() == {"status": "ok"}
    assert (await router.http.get("/readyz")).json() == {"status": "ready"}


async def test_metrics_count_runs_and_show_depths(router: Router) -> None:
    await router.infer("timed_result")

    text = (await router.http.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}

    runs = [sample.labels for sample in families["beacon_router_runs"].samples]
    assert any(labels["backend"] == "us-1" and labels["outcome"] == "completed" for labels in runs)
    breakers = {s.labels["backend"]: s.value for s in families["beacon_router_breaker"].samples}
    assert breakers == {"us-1": 0, "us-chat": 0, "eu-1": 0}
    assert families["beacon_router_queue_depth"].samples
    routes = {sample.labels["route"] for sample in families["beacon_router_http_requests"].samples}
    assert "/inference" in routes


async def test_the_documentation_is_complete(router: Router) -> None:
    document = (await router.http.get("/openapi.json")).json()

    paths = document["paths"]
    assert {"/inference", "/inference/{request_id}", "/queue/status", "/queue/status/{region}"} <= set(paths)
    assert {"/status", "/inference", "/healthz", "/readyz"} <= set(paths)
    ask = paths["/inference"]["post"]
    assert {"200", "202", "400", "401", "403", "409", "413", "422", "429", "503", "504"} <= set(
        ask["responses"]
    )
    content = ask["requestBody"]["content"]["application/json"]
    assert content["examples"]
    assert "application/problem+json" in ask["responses"]["429"]["content"]
    for reference in _references(document):
        assert reference.rpartition("/")[2] in document["components"]["schemas"], reference


def _references(value: object) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(inner) for inner in value.values()))
    if isinstance(value, list):
        return set().union(*(_references(inner) for inner in value))
    return set()
