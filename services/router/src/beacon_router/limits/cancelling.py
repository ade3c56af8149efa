"""Ends tasks that use the Redis client."""

import asyncio

from beacon_lifecycle import TaskSet

CANCEL_AGAIN_S = 0.2


async def cancel_until_done(tasks: TaskSet) -> None:
    """Repeats the cancellation, because the client library may swallow it while it connects."""
    while True:
        try:
            async with asyncio.timeout(CANCEL_AGAIN_S):
                await tasks.close()
                return
        except TimeoutError:
            continue
