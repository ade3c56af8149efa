"""One simulated GPU process for the whole folder, as new for every test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.fixtures.gpusim import Gpusim, GpusimProcess, gpusim_client, gpusim_process

SETTINGS = {
    "region": "EU",
    "slots": 4,
    "default_load": 0,
    "default_run": 0,
    "models": {"llama": {}, "slow": {"run": 600}, "steady": {"run": 0.05}, "cold": {"load": 0.05}},
    "body_bytes": 200_000,
}


@pytest.fixture(scope="session")
def shared_process() -> Iterator[GpusimProcess]:
    with gpusim_process(**SETTINGS) as process:
        yield process


@pytest.fixture
async def gpu(shared_process: GpusimProcess) -> AsyncIterator[Gpusim]:
    async with gpusim_client(shared_process) as client:
        await client.reset()
        yield client
        await client.reset()
