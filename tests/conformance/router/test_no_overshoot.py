"""Fifty processes compete for one slot; a counter outside of the limit checks them."""

import asyncio
import sys

from beacon_lifecycle import SystemClock
from beacon_router.limits.lease import CapacityLease
from beacon_router.limits.port import SharedLimit
from tests.fixtures.memory_limiter import MemoryLimiter
from tests.fixtures.waiting import WAIT_TIMEOUT_S

FIGHTERS = 50
ROUNDS = 2


async def test_fifty_processes_never_hold_one_slot_concurrently(redis_url: str) -> None:
    fight = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.conformance.router.slot_contenders", redis_url, str(FIGHTERS), str(ROUNDS)),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await fight.communicate()

    held, most = output.decode().splitlines()[-1].split()
    assert fight.returncode == 0
    assert (int(held), int(most)) == (FIGHTERS * ROUNDS, 1)


async def test_fifty_tasks_never_hold_one_slot_concurrently() -> None:
    clock = SystemClock()
    limiter = MemoryLimiter(clock, lease_s=30.0)
    inside = most = held = 0

    async def fight() -> None:
        nonlocal inside, most, held
        grown = asyncio.Event()
        lease = CapacityLease(SharedLimit("group:single", 1), limiter, clock, lambda capacity: grown.set())
        await lease.start()
        for _ in range(ROUNDS):
            lease.set_demand(1)
            while lease.capacity == 0:
                grown.clear()
                await grown.wait()
            lease.acquired()
            inside += 1
            held += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            lease.set_demand(0)
            lease.released()
        await lease.stop()

    async with asyncio.timeout(WAIT_TIMEOUT_S):
        await asyncio.gather(*(fight() for _ in range(FIGHTERS)))

    assert (held, most) == (FIGHTERS * ROUNDS, 1)
