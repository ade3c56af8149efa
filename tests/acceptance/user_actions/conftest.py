"""The whole system with one attempt per inference at the router, so that jobs reach their own backoff."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.tiers.users import UserFactory
from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.stack import RunningStack, running_stack
from tests.fixtures.waiting import PATIENCE_S

SHIPPED = Path(__file__).parents[3] / "config" / "beacon.toml"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    text = SHIPPED.read_text(encoding="utf-8")
    shipped = "batch_limit = 3\nattempts = 3"
    assert text.count(shipped) == 1
    path = tmp_path_factory.mktemp("config") / "beacon.toml"
    path.write_text(text.replace(shipped, "batch_limit = 3\nattempts = 1"), encoding="utf-8")
    with running_stack(BEACON_CONFIG=str(path), GPUSIM_TIME_SCALE="0.3") as running:
        yield running


@pytest.fixture
async def users(stack: RunningStack) -> AsyncIterator[UserFactory]:
    async with httpx.AsyncClient(timeout=PATIENCE_S, verify=NO_TLS) as http:
        yield UserFactory(stack, http)
        await http.delete(f"{stack.url('gpusim-us')}/control/faults")
        await http.post(f"{stack.url('gpusim-us')}/control/release")
