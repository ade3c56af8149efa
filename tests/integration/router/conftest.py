"""One simulated GPU and one router for all tests of a file, and fresh clients for each test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.fixtures.file_stores import s3_url, store, store_url
from tests.fixtures.gpusim import Gpusim, GpusimProcess, gpusim_client, gpusim_process
from tests.fixtures.router import Router, RouterProcess, backend, router_client, router_config, router_process

__all__ = ["s3_url", "store", "store_url"]

MODELS = ("m", "slow", "steps")


@pytest.fixture(scope="module")
def us_process() -> Iterator[GpusimProcess]:
    models = {"slow": {"load": 0, "run": 3_000}}
    with gpusim_process(
        region="US", slots=8, loaded_models=8, models=models, default_load=0, default_run=0
    ) as us:
        yield us


@pytest.fixture(scope="module")
def shared_router(us_process: GpusimProcess) -> Iterator[RouterProcess]:
    config = router_config(
        {
            "us-1": backend("US", us_process.url, models=("m", "slow"), slots=4),
            "us-chat": backend("US", us_process.url, dialect="openai", models=("chat",), slots=2),
            "eu-1": backend("EU", us_process.url, models=("m",), slots=1),
        },
        models={"slow": {"expected_load_s": 0.0, "expected_run_s": 3_000.0}},
        regions={"US": {"aliases": ["us-east"]}},
        body_bytes=100_000,
        attempts=1,
    )
    with router_process(config) as running:
        yield running


@pytest.fixture
async def gpu(us_process: GpusimProcess) -> AsyncIterator[Gpusim]:
    async with gpusim_client(us_process) as client:
        await client.clear_faults()
        yield client


@pytest.fixture
async def router(shared_router: RouterProcess) -> AsyncIterator[Router]:
    async with router_client(shared_router) as client:
        yield client
