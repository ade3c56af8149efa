"""Workers and routers that die while a provider runs their work: the run is continued, not repeated."""

import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beacon_contracts.events import EventType
from beacon_contracts.ids import JobId, encode_execution_id
from beacon_runner.postgres.jobs.job_queries import PostgresJobQueries
from tests.fixtures.waiting import until
from tests.integration.runner_loops.harness import LoopHarness
from tests.integration.runner_loops.processes import Process, ProcessHarness, process_harness
from tests.integration.runner_router_client.router_stub import RouterStub, router_stub

REMOTE = {"backend": "us-1", "run_id": "pred-17"}
PROVIDERS = {
    "modal": ("/spawn", 'dialect = "modal"\nspawn = true'),
    "replicate": ("/replicate", 'dialect = "async"\npreset = "replicate"'),
    "runpod": ("/runpod/flux", 'dialect = "async"\npreset = "runpod"'),
    "fal": ("/fal", 'dialect = "async"\npreset = "fal"\nmodel_names = { flux = "fal-ai/flux/schnell" }'),
    "comfyui": ("/comfyui", 'dialect = "comfyui"'),
}
"""The path at the simulator, and the keys of the backend."""
WORKFLOW = """
[models.flux.workflow]
inputs = { prompt = "6.text" }
[models.flux.workflow.graph]
6 = { class_type = "CLIPTextEncode", inputs = { text = "" } }
3 = { class_type = "KSampler", inputs = { positive = ["6", 0] } }
9 = { class_type = "SaveImage", inputs = { images = ["3", 0] } }

"""


@pytest.fixture
async def router() -> AsyncIterator[RouterStub]:
    async with router_stub() as one:
        yield one


@pytest.fixture
async def processes(
    database_url: str, redis_url: str, tmp_path: Path, router: RouterStub
) -> AsyncIterator[ProcessHarness]:
    async with process_harness(database_url, redis_url, tmp_path) as made:
        made.environment["BEACON_ROUTER_URLS"] = router.url
        await made.relay("relay")
        yield made


async def test_the_next_worker_continues_the_run_at_the_backend(
    harness: LoopHarness, processes: ProcessHarness, router: RouterStub
) -> None:
    """Worker and router die together: only what is recorded leads to the run."""
    worker = await processes.worker("first")
    (job,) = await harness.submit()
    execution = encode_execution_id(job, 0, 0)
    await router.until(lambda: execution in router.known)
    await router.report(execution, state="running", backend="us-1", actual_region="US", remote=REMOTE)

    async def recorded() -> bool:
        return [one["remote"] for one in await harness.executions(job)] == [REMOTE]

    await until(recorded, "the run at the backend is recorded")
    worker.send(signal.SIGKILL)
    await worker.exited()
    router.known.clear()
    await processes.worker("second")
    await router.until(lambda: execution in router.known)
    assert [body["remote"] for body in router.bodies] == [None, REMOTE]
    await router.finish(execution)
    assert await harness.ended(job) == ["completed"]
    assert [one["remote"] for one in await harness.executions(job)] == [None]


@dataclass
class Provider:
    """Processes whose flux runs at a provider, with a router that can be killed and started again."""

    processes: ProcessHarness
    port: int
    routers: int = 0

    async def use(self, kind: str) -> None:
        """Before any other process is started."""
        path, keys = PROVIDERS[kind]
        backend = (
            f'region = "US"\nurl = "{self.processes.gpu.url}{path}"\nmodels = ["flux"]\nslots = 4\n{keys}'
        )
        self.processes.change_config("[models.flux]", f"[backends.us-flux]\n{backend}\n\n[models.flux]")
        await self.processes.relay("relay")

    async def start_router(self) -> Process:
        self.routers += 1
        await self.processes.router(f"router-of-provider-{self.routers}", self.port)
        return self.processes.processes[-1]

    async def named(self, harness: LoopHarness, job: JobId) -> Any:
        """The run at the provider, when it is recorded."""

        async def recorded() -> Any:
            found = [one["remote"] for one in await harness.executions(job)]
            return found and found[0]

        return await until(recorded, "the run at the provider is recorded")

    async def outcomes(self) -> list[str | None]:
        return [call["outcome"] for call in await self.processes.gpu.ledger()]


@pytest.fixture
async def provider(
    database_url: str, redis_url: str, tmp_path: Path, unused_tcp_port: int
) -> AsyncIterator[Provider]:
    async with process_harness(database_url, redis_url, tmp_path) as processes:
        served = '"mistral-7b", "flux", "sdxl", "music", "audio"]'
        processes.change_config(served, served.replace('"flux", ', ""))
        processes.change_config("[models.sdxl]", f"{WORKFLOW}[models.sdxl]")
        processes.environment["BEACON_ROUTER_URLS"] = f"http://127.0.0.1:{unused_tcp_port}"
        await processes.gpu.hold()
        yield Provider(processes, unused_tcp_port)


@pytest.mark.parametrize(
    ("killed", "kind"), [("worker", "modal"), ("router", "modal"), *(("both", kind) for kind in PROVIDERS)]
)
async def test_a_run_at_a_provider_is_not_repeated(
    harness: LoopHarness, provider: Provider, killed: str, kind: str
) -> None:
    await provider.use(kind)
    processes, router = provider.processes, await provider.start_router()
    worker = await processes.worker("first")
    (job,) = await harness.submit()
    remote = await provider.named(harness, job)
    if killed in ("worker", "both"):
        worker.send(signal.SIGKILL)
        await worker.exited()
    if killed in ("router", "both"):
        router.send(signal.SIGKILL)
        await router.exited()
        await provider.start_router()
    if killed in ("worker", "both"):
        await processes.worker("second")
    await processes.gpu.release()
    assert await harness.ended(job) == ["completed"]
    assert await provider.outcomes() == ["completed"], f"the only run is {remote}"
    assert [one["remote"] for one in await harness.executions(job)] == [None]


async def test_a_cancel_ends_a_run_that_no_router_knows(harness: LoopHarness, provider: Provider) -> None:
    """The routers have lost it, and no worker has asked for it again."""
    await provider.use("replicate")
    processes, router = provider.processes, await provider.start_router()
    worker = await processes.worker("first")
    (job,) = await harness.submit()
    await provider.named(harness, job)
    for process in (worker, router):
        process.send(signal.SIGKILL)
        await process.exited()
    await provider.start_router()
    await harness.cancel(job)

    async def ended() -> bool:
        return await provider.outcomes() == ["aborted"]

    await until(ended, "the run at the provider is cancelled")

    async def settled() -> bool:
        return not await harness.database.fetch("SELECT FROM router_cancels")

    await until(settled, "the cancel is confirmed")
    assert [one["remote"] for one in await harness.executions(job)] == [None]


@pytest.mark.parametrize("kind", ["modal", "comfyui"])
async def test_progress_of_a_provider_reaches_the_events_of_the_job(
    harness: LoopHarness, provider: Provider, kind: str
) -> None:
    await provider.use(kind)
    processes = provider.processes
    await provider.start_router()
    await processes.worker("worker")
    (job,) = await harness.submit()

    async def reported() -> Any:
        queries = PostgresJobQueries(harness.database)
        record = await queries.job(job)
        assert record is not None
        events = await queries.events(record, 0, 100)
        found = [event for event in events if event.type is EventType.EXECUTION_PROGRESS]
        return [event for event in found if event.data["preview"] or kind != "comfyui"]

    (event,) = await until(reported, "progress is recorded")
    assert event.data["message"]
    assert (event.data["item"], event.data["model"], event.data["region"]) == ("generation", "flux", "US")
    await processes.gpu.release()
    assert await harness.ended(job) == ["completed"]
