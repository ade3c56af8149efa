"""One process's part of a shared limit when the memory of the limit does not answer."""

import asyncio
from collections.abc import Sequence

from beacon_lifecycle import ManualClock
from beacon_router.limits import LimitShare, MemoryLimiter, Standing, Token
from beacon_router.limits.port import Limit

LEASE_S = 10.0


class Sleepy(MemoryLimiter):
    """Does not answer while it is `asleep`."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, lease_s=LEASE_S)
        self.awake = asyncio.Event()
        self.awake.set()

    async def renew(self, limit: Limit, held: Sequence[Token], waiting: Sequence[Token]) -> Standing:
        await self.awake.wait()
        return await super().renew(limit, held, waiting)


async def test_nothing_starts_on_a_lease_that_ended_while_nobody_answered() -> None:
    clock = ManualClock()
    limiter = Sleepy(clock)
    capacities: list[int] = []
    share = LimitShare(Limit("group:modal", 4), limiter, clock, capacities.append)
    await share.start()
    try:
        share.want(2)
        await clock.advance(0)
        assert capacities == [2]

        limiter.awake.clear()
        await clock.advance(LEASE_S)
        assert capacities == [2, 0]

        limiter.awake.set()
        await clock.advance(LEASE_S)
        assert capacities == [2, 0, 2]
    finally:
        await share.stop()
