"""One router and one simulator for the whole suite; every test runs on every dialect."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.conformance.dialects.cases import CASES, REMOTE, Case, config_of
from tests.fixtures.gpusim import Gpusim, GpusimProcess, gpusim_client, gpusim_process
from tests.fixtures.router import Router, RouterProcess, router_client, router_process
from tests.fixtures.waiting import until


@pytest.fixture(scope="session")
def gpu_process() -> Iterator[GpusimProcess]:
    with gpusim_process(region="EU", slots=4, time_scale=0) as running:
        yield running


@pytest.fixture(scope="session")
def shared_router(gpu_process: GpusimProcess) -> Iterator[RouterProcess]:
    with router_process(config_of(CASES, gpu_process.url)) as running:
        yield running


@pytest.fixture
async def gpu(gpu_process: GpusimProcess) -> AsyncIterator[Gpusim]:
    async with gpusim_client(gpu_process) as client:
        await client.reset()
        await client.clear_faults()
        yield client


@pytest.fixture
async def router(gpu: Gpusim, shared_router: RouterProcess) -> AsyncIterator[Router]:
    """Idle at the end, so that no run of a test is taken for one of the next test."""
    async with router_client(shared_router) as client:
        yield client
        await gpu.release()

        async def idle() -> bool:
            queues = await client.queues()
            return not any(queues[name] for name in ("waiting", "running", "backing_off"))

        await until(idle, "the router is idle")


@pytest.fixture(params=CASES, ids=lambda case: str(case.name))
def case(request: pytest.FixtureRequest) -> Case:
    given: Case = request.param
    return given


@pytest.fixture(params=REMOTE, ids=lambda case: str(case.name))
def remote_case(request: pytest.FixtureRequest) -> Case:
    given: Case = request.param
    return given
