"""Polls a child until it is ready, it ends, or a deadline passes."""

import asyncio
from collections.abc import Awaitable, Callable

from beacon_devstack.errors import DevstackError
from beacon_devstack.processes.child import Child
from beacon_lifecycle import Clock

POLL_S = 0.05


async def until_answers(
    child: Child, probe: Callable[[], Awaitable[str | None]], *, timeout_s: float, clock: Clock
) -> None:
    """Return when `probe` returns None; otherwise it returns the reason for not being ready."""
    deadline = clock.now() + timeout_s
    while True:
        reason = await probe()
        if reason is None:
            return
        if not child.running:
            raise child.exit_error("it ended while starting")
        if clock.now() > deadline:
            raise DevstackError(
                child.spec.name, f"not ready after {timeout_s:.0f} s: {reason}", child.spec.log
            )
        await asyncio.sleep(POLL_S)
