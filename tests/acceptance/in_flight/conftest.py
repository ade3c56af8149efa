"""The whole system without limits on the jobs of a user; no run ends in US, loads in EU take six minutes."""

import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.tiers.users import UserFactory
from tests.fixtures.module_process import ModuleProcess
from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.stack import RunningStack, running_stack
from tests.fixtures.waiting import WAIT_TIMEOUT_S, eventually

STALLED = {"gpusim-us": {"kind": "hold"}, "gpusim-eu": {"kind": "slow_start", "extra_s": 360}}
SHIPPED = Path(__file__).parents[3] / "config" / "beacon.toml"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    text = re.sub(r"(?m)^(pending_jobs|jobs_per_hour) = \d+\n", "", SHIPPED.read_text(encoding="utf-8"))
    path = tmp_path_factory.mktemp("config") / "beacon.toml"
    path.write_text(text, encoding="utf-8")
    with running_stack(BEACON_CONFIG=str(path)) as running:
        for gpu, fault in STALLED.items():
            httpx.post(f"{running.url(gpu)}/control/faults", json=fault).raise_for_status()
        yield running
        running.kill("runner")  # its thousands of jobs need not be returned
        running.kill("router")


@pytest.fixture
def second_worker(stack: RunningStack, tmp_path: Path) -> Iterator[None]:
    ready = tmp_path / "worker.url"
    environment = {
        **stack.environment("runner"),
        "BEACON_RUNNER_PORT": "0",
        "BEACON_RUNNER_READY_FILE": str(ready),
    }
    log = tmp_path / "worker.log"
    worker = ModuleProcess("beacon_runner", "worker", environment=os.environ | environment, log_file=log)
    try:
        eventually(ready.exists, "the second worker is ready")
        yield
    finally:
        worker.kill()


@pytest.fixture
async def users(stack: RunningStack) -> AsyncIterator[UserFactory]:
    async with httpx.AsyncClient(timeout=WAIT_TIMEOUT_S, verify=NO_TLS) as http:
        yield UserFactory(stack, http)
