"""Ending tasks that talk to Redis."""

import asyncio

from beacon_lifecycle import TaskSet

_CANCEL_AGAIN_S = 0.2


async def close_surely(tasks: TaskSet) -> None:
    """The client library swallows a cancellation that meets it while it connects: it is sent again."""
    while True:
        try:
            async with asyncio.timeout(_CANCEL_AGAIN_S):
                await tasks.close()
                return
        except TimeoutError:
            continue
