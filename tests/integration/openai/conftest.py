"""The runner's API in front of a real router and a simulated GPU, as OpenAI's client sees it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import openai
import pytest

from tests.fixtures.gpusim import Gpusim, GpusimProcess, gpusim_client, gpusim_process
from tests.fixtures.router import Router, RouterProcess, backend, router_client, router_config, router_process
from tests.integration.openai.harness import ChatApi, chat_api, openai_client


@pytest.fixture(scope="module")
def gpu_process() -> Iterator[GpusimProcess]:
    with gpusim_process(region="US", slots=8, loaded_models=8, default_load=0, default_run=0) as process:
        yield process


@pytest.fixture(scope="module")
def config(gpu_process: GpusimProcess) -> str:
    return router_config(
        {
            "us-1": backend("US", gpu_process.url, models=("m",), slots=4),
            "us-chat": backend("US", gpu_process.url, dialect="openai", models=("chat",), slots=2),
            "eu-1": backend("EU", gpu_process.url, models=("m",), slots=1),
        },
        models={"m": {"expected_load_s": 0.0, "expected_run_s": 0.05, "kind": "chat"}},
        attempts=1,
    )


@pytest.fixture(scope="module")
def shared_router(config: str) -> Iterator[RouterProcess]:
    with router_process(config) as running:
        yield running


@pytest.fixture
async def gpu(gpu_process: GpusimProcess) -> AsyncIterator[Gpusim]:
    async with gpusim_client(gpu_process) as client:
        await client.clear_faults()
        await client.clear_ledger()
        yield client


@pytest.fixture
async def router(shared_router: RouterProcess) -> AsyncIterator[Router]:
    async with router_client(shared_router) as client:
        yield client


@pytest.fixture
async def api(
    database_url: str, redis_url: str, config: str, shared_router: RouterProcess, tmp_path: Path
) -> AsyncIterator[ChatApi]:
    async with chat_api(database_url, redis_url, config, [shared_router.url], tmp_path) as served:
        yield served


@pytest.fixture
async def client(api: ChatApi) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai_client(api) as made:
        yield made
