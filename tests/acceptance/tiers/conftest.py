"""The whole system with short delays: seconds instead of minutes."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.tiers.users import UserFactory
from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.stack import RunningStack, running_stack
from tests.fixtures.waiting import PATIENCE_S

SHIPPED = Path(__file__).parents[3] / "config" / "beacon.toml"
SHORTER = {
    "low_to_medium_after_s = 1800\nmedium_to_high_after_s = 3600\ncheck_every_s = 300": (
        "low_to_medium_after_s = 2\nmedium_to_high_after_s = 600\ncheck_every_s = 0.5"
    ),
    "job_retry_delays_s = [60, 120, 180]": "job_retry_delays_s = [0.5, 0.5, 0.5]",
    "batch_limit = 3\nattempts = 3": "batch_limit = 3\nattempts = 1",
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    text = SHIPPED.read_text(encoding="utf-8")
    for long, short in SHORTER.items():
        assert text.count(long) == 1, f"the shipped configuration must have {long!r} once"
        text = text.replace(long, short)
    path = tmp_path_factory.mktemp("config") / "beacon.toml"
    path.write_text(text, encoding="utf-8")
    with running_stack(BEACON_CONFIG=str(path), GPUSIM_TIME_SCALE="0.3") as running:
        yield running


@pytest.fixture
async def users(stack: RunningStack) -> AsyncIterator[UserFactory]:
    async with httpx.AsyncClient(timeout=PATIENCE_S, verify=NO_TLS) as http:
        yield UserFactory(stack, http)
        await http.delete(f"{stack.url('gpusim-us')}/control/faults")
        await http.post(f"{stack.url('gpusim-us')}/control/release")
