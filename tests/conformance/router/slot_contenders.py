"""Many processes that compete for one slot of a limit in Redis; a separate counter checks them.

    python -m tests.conformance.router.slot_contenders <redis url> <processes> <rounds>

Prints `<times the slot was held> <most holders at one moment>`.
"""

import asyncio
import os
import sys

from redis.asyncio import Redis

from beacon_lifecycle import SystemClock
from beacon_redis import RedisAddress
from beacon_router.limits import RedisLimiter
from beacon_router.limits.lease import CapacityLease
from beacon_router.limits.port import SharedLimit
from tests.fixtures.waiting import WAIT_TIMEOUT_S

SLOT = SharedLimit("group:single", 1)
HELD, INSIDE, MOST = "witness:held", "witness:inside", "witness:most"


async def fight(url: str, rounds: int) -> None:
    clock = SystemClock()
    limiter = RedisLimiter(RedisAddress(url), clock, lease_s=5.0)
    grown = asyncio.Event()
    lease = CapacityLease(SLOT, limiter, clock, lambda capacity: grown.set() if capacity else None)
    await limiter.start()
    await lease.start()
    async with Redis.from_url(url) as witness, asyncio.timeout(WAIT_TIMEOUT_S):
        for _ in range(rounds):
            await hold_once(lease, grown, witness)
    await lease.stop()
    await limiter.stop()


async def hold_once(lease: CapacityLease, grown: asyncio.Event, witness: Redis) -> None:
    lease.set_demand(1)
    while lease.capacity == 0:
        grown.clear()
        await grown.wait()
    lease.acquired()
    inside = await witness.incr(INSIDE)
    await witness.zadd(MOST, {"most": inside}, gt=True)
    await witness.incr(HELD)
    await witness.decr(INSIDE)
    lease.set_demand(0)
    lease.released()


async def report(url: str) -> str:
    async with Redis.from_url(url, decode_responses=True) as witness:
        held, most = await witness.get(HELD), await witness.zscore(MOST, "most")
        return f"{int(held or 0)} {int(most or 0)}"


def main() -> int:
    url, processes, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    asyncio.run(fight(url, 0))  # the first of all: the limit is known when the fight begins
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            asyncio.run(fight(url, rounds))
            os._exit(0)
        children.append(child)
    failures = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    sys.stdout.write(asyncio.run(report(url)) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
