"""Revisions sent to a running router: runs continue, and waiting requests keep their places."""

import copy
import shutil
import signal
import tomllib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import certifi
import pytest

from beacon_contracts.inference import InferenceState
from tests.fixtures.gpusim import Gpusim, GpusimProcess, gpusim_client, gpusim_process
from tests.fixtures.router import Router, backend, router_config, start_router
from tests.fixtures.waiting import until


@pytest.fixture(scope="module")
def gpu_process() -> Any:
    models = {"slow": {"load": 0, "run": 3_000}}
    with gpusim_process(slots=8, loaded_models=8, models=models, default_load=0, default_run=0) as running:
        yield running


@pytest.fixture
async def gpu(gpu_process: GpusimProcess) -> AsyncIterator[Gpusim]:
    async with gpusim_client(gpu_process) as client:
        await client.clear_faults()
        yield client


def document(gpu: GpusimProcess, **backends: Any) -> dict[str, Any]:
    given = backends or {
        "us-1": backend("US", gpu.url, models=("m", "slow"), slots=1),
        "eu-1": backend("EU", gpu.url, models=("m",), slots=1),
    }
    return tomllib.loads(router_config(given))


def file_of(gpu: GpusimProcess) -> str:
    return router_config(
        {
            "us-1": backend("US", gpu.url, models=("m", "slow"), slots=1),
            "eu-1": backend("EU", gpu.url, models=("m",), slots=1),
        }
    )


async def put(router: Router, revision: int, changed: dict[str, Any], *, second: int | None = None) -> Any:
    """Stored one second after another; `second`: after how many instead."""
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=revision if second is None else second)
    body = {"revision": revision, "created_at": moment.isoformat(), "document": changed}
    answer = await router.http.put("/config", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_file_applies_until_a_revision_is_sent(gpu_process: GpusimProcess) -> None:
    async with start_router(file_of(gpu_process)) as router:
        assert (await router.http.get("/config")).json()["revision"] is None
        view = await put(router, 3, document(gpu_process))
        assert (view["revision"], view["errors"]) == (3, [])
        older = document(gpu_process, only=backend("US", gpu_process.url))
        assert (await put(router, 2, older))["revision"] == 3
        assert set((await router.queues())["regions"]) == {"US", "EU"}


async def test_revisions_of_a_restored_database_apply_by_their_time(gpu_process: GpusimProcess) -> None:
    async with start_router(file_of(gpu_process)) as router:
        await put(router, 9, document(gpu_process))
        later = document(gpu_process, only=backend("ASIA", gpu_process.url))
        assert (await put(router, 4, later, second=10))["revision"] == 4
        assert set((await router.queues())["regions"]) == {"ASIA"}


async def test_an_added_backend_serves_waiting_requests(gpu_process: GpusimProcess, gpu: Gpusim) -> None:
    async with start_router(file_of(gpu_process)) as router:
        await router.submit("busy", model="slow", prefer="respond-async")
        await router.submit("waits", model="slow", prefer="respond-async")
        changed = document(gpu_process)
        changed["backends"]["us-2"] = backend("US", gpu_process.url, models=("slow",), slots=1)
        await put(router, 2, changed)
        waiting = await router.get("waits")
        assert (waiting.state, waiting.backend) == (InferenceState.RUNNING, "us-2")
        assert (await router.get("busy")).backend == "us-1"


async def test_a_drained_backend_ends_its_run_and_starts_none(
    gpu_process: GpusimProcess, gpu: Gpusim
) -> None:
    async with start_router(file_of(gpu_process)) as router:
        await router.submit("busy", model="slow", prefer="respond-async")
        changed = document(gpu_process)
        changed["backends"]["us-1"]["drain"] = True
        await put(router, 2, changed)
        await router.submit("waits", region="US", failover="pinned", prefer="respond-async")
        waiting = await router.get("waits")
        assert waiting.state is InferenceState.QUEUED
        assert waiting.waiting_for == "us-1 is drained or has 0 slots in US"
        assert (await router.get("busy")).state is InferenceState.RUNNING
        await router.cancel("busy")
        assert (await router.get("waits")).state is InferenceState.QUEUED
        await put(router, 3, document(gpu_process))
        assert (await router.get("waits", prefer="wait=20")).state is InferenceState.COMPLETED


async def test_a_removed_backend_vanishes_with_its_last_run(gpu_process: GpusimProcess, gpu: Gpusim) -> None:
    async with start_router(file_of(gpu_process)) as router:
        await router.submit("busy", model="slow", prefer="respond-async")
        await router.submit("stranded", model="slow", prefer="respond-async")
        await put(router, 2, document(gpu_process, only=backend("EU", gpu_process.url)))
        stranded = await router.get("stranded")
        assert stranded.failure is not None
        assert (stranded.failure.code, stranded.failure.retryable) == ("model_removed", False)
        assert (await router.queues())["regions"]["US"]["backends"][0]["busy"] == 1
        await router.cancel("busy")
        assert set((await router.queues())["regions"]) == {"EU"}
        refused = await router.submit("new", model="slow")
        assert (refused.status_code, refused.json()["code"]) == (422, "unknown_model")


async def test_a_retry_of_a_removed_model_fails(gpu_process: GpusimProcess, gpu: Gpusim) -> None:
    async with start_router(file_of(gpu_process)) as router:
        await gpu.add_fault(kind="error", status=503, model="slow")
        await router.submit("again", model="slow", prefer="respond-async")

        async def backs_off() -> bool:
            return (await router.get("again")).state is InferenceState.BACKOFF

        await until(backs_off, "the first attempt has failed")
        await put(router, 2, document(gpu_process, only=backend("EU", gpu_process.url)))
        failed = await router.get("again", prefer="wait=20")
        assert failed.failure is not None
        assert failed.failure.code == "model_removed"


async def test_a_document_that_cannot_be_applied_changes_nothing(gpu_process: GpusimProcess) -> None:
    async with start_router(file_of(gpu_process)) as router:
        for wrong in (
            {"slots": -1},
            {"api_key_env": "A_VARIABLE_THAT_IS_NOT_SET"},
        ):
            changed = document(gpu_process)
            changed["backends"]["us-1"] |= wrong
            view = await put(router, 2, changed)
            assert (view["revision"], view["refused"]) == (None, 2)
            assert view["refused_created_at"] is not None
            assert "us-1" in view["errors"][0]
        assert (await router.infer("still", region="US")).state is InferenceState.COMPLETED
        applied = await put(router, 2, document(gpu_process))
        assert (applied["errors"], applied["refused"]) == ([], None)


async def test_sighup_tries_a_refused_revision_again(gpu_process: GpusimProcess, tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    async with start_router(file_of(gpu_process)) as router:
        changed = document(gpu_process)
        changed["backends"]["us-1"]["ca"] = str(authorities)
        assert (await put(router, 2, changed))["refused"] == 2
        shutil.copy(certifi.where(), authorities)
        router.process.send(signal.SIGHUP)

        async def applied() -> bool:
            view = (await router.http.get("/config")).json()
            return (view["revision"], view["refused"], view["errors"]) == (2, None, [])

        await until(applied, "the revision is tried again")


async def test_addresses_of_the_environment_replace_those_of_revisions(gpu_process: GpusimProcess) -> None:
    elsewhere = copy.deepcopy(document(gpu_process))
    elsewhere["backends"]["us-1"]["url"] = "http://127.0.0.1:9/modal"
    override = f"{gpu_process.url}/modal"
    async with start_router(file_of(gpu_process), BEACON_BACKEND_US_1_URL=override) as router:
        await put(router, 2, elsewhere)
        assert (await router.infer("r1", failover="pinned")).state is InferenceState.COMPLETED


async def test_a_smaller_queue_keeps_waiting_requests_and_refuses_more(
    gpu_process: GpusimProcess, gpu: Gpusim
) -> None:
    async with start_router(file_of(gpu_process)) as router:
        for number in range(3):
            await router.submit(f"r{number}", model="slow", prefer="respond-async")
        await put(router, 2, document(gpu_process) | {"router": {"queue_size": 1}})
        refused = await router.submit("more", model="slow", prefer="respond-async")
        assert (refused.status_code, refused.json()["code"]) == (429, "queue_full")
        assert (await router.queues())["waiting"] == 2
        await put(router, 3, document(gpu_process))
        assert (await router.submit("more", model="slow", prefer="respond-async")).status_code == 202


async def test_the_last_revision_applies_after_a_restart(gpu_process: GpusimProcess, tmp_path: Path) -> None:
    state = str(tmp_path / "router.json")
    async with start_router(file_of(gpu_process), BEACON_ROUTER_STATE_FILE=state) as router:
        await put(router, 7, document(gpu_process, only=backend("ASIA", gpu_process.url)))
    async with start_router(file_of(gpu_process), BEACON_ROUTER_STATE_FILE=state) as router:
        assert (await router.http.get("/config")).json()["revision"] == 7
        assert set((await router.queues())["regions"]) == {"ASIA"}


async def test_after_sighup_the_file_applies_while_there_is_no_revision(gpu_process: GpusimProcess) -> None:
    async with start_router(file_of(gpu_process)) as router:

        async def regions() -> set[str]:
            return set((await router.queues())["regions"])

        async def reloads(region: str) -> None:
            changed = router_config({"only": backend(region, gpu_process.url)})
            router.process.config_file.write_text(changed, encoding="utf-8")
            router.process.send(signal.SIGHUP)

        await reloads("ASIA")

        async def applied() -> bool:
            return await regions() == {"ASIA"}

        await until(applied, "the file was read again")
        await put(router, 2, document(gpu_process))
        await reloads("MARS")

        async def ignored() -> bool:
            return "config_file_ignored" in router.process.log

        await until(ignored, "the signal was handled")
        assert (await router.infer("r1", region="EU")).state is InferenceState.COMPLETED
        assert await regions() == {"US", "EU"}
