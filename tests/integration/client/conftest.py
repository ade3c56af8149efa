"""A stub of the runner in a thread, for blocking clients."""

import asyncio
from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal

from tests.fixtures.waiting import WAIT_TIMEOUT_S
from tests.integration.client.runner_stub import RunnerStub, runner_stub


@pytest.fixture
def served() -> Iterator[RunnerStub]:
    """A `RunnerStub` that answers while the test blocks."""

    async def serve(ready: asyncio.Queue[RunnerStub], stop: asyncio.Event) -> None:
        async with runner_stub() as one:
            await ready.put(one)
            await stop.wait()

    with start_blocking_portal("asyncio") as portal:
        ready: asyncio.Queue[RunnerStub] = portal.call(asyncio.Queue)
        stop = portal.call(asyncio.Event)
        serving = portal.start_task_soon(serve, ready, stop)
        yield portal.call(ready.get)
        portal.call(stop.set)
        serving.result(timeout=WAIT_TIMEOUT_S)
