"""Users of the running system of a module, which its folder starts as `stack`."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.acceptance.tiers.users import UserFactory
from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import WAIT_TIMEOUT_S


@pytest.fixture
async def users(stack: RunningStack) -> AsyncIterator[UserFactory]:
    async with httpx.AsyncClient(timeout=WAIT_TIMEOUT_S, verify=NO_TLS) as http:
        made = UserFactory(stack, http)
        yield made
        await made.end()
