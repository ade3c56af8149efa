"""Users of the running system of a module, which its folder starts as `stack`."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.acceptance.tiers.users import UserFactory
from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import PATIENCE_S


@pytest.fixture
async def users(stack: RunningStack) -> AsyncIterator[UserFactory]:
    async with httpx.AsyncClient(timeout=PATIENCE_S, verify=NO_TLS) as http:
        yield UserFactory(stack, http)
        await http.delete(f"{stack.url('gpusim-us')}/control/faults")
        await http.post(f"{stack.url('gpusim-us')}/control/release")
