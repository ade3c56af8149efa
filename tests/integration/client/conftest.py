"""A runner's door in a thread of its own, for callers that block."""

import asyncio
from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal

from tests.fixtures.waiting import PATIENCE_S
from tests.integration.client.small_runner import SmallRunner, small_runner


@pytest.fixture
def served() -> Iterator[SmallRunner]:
    """A `SmallRunner` that answers while the test blocks."""

    async def serve(ready: asyncio.Queue[SmallRunner], stop: asyncio.Event) -> None:
        async with small_runner() as one:
            await ready.put(one)
            await stop.wait()

    with start_blocking_portal("asyncio") as portal:
        ready: asyncio.Queue[SmallRunner] = portal.call(asyncio.Queue)
        stop = portal.call(asyncio.Event)
        serving = portal.start_task_soon(serve, ready, stop)
        yield portal.call(ready.get)
        portal.call(stop.set)
        serving.result(timeout=PATIENCE_S)
