"""A process's share of a limit while the limiter is unavailable."""

import asyncio
from collections.abc import Sequence

from beacon_lifecycle import ManualClock
from beacon_router.limits import CapacityLease, Token, TokenStatus
from beacon_router.limits.port import LimiterUnavailableError, SharedLimit
from tests.fixtures.memory_limiter import MemoryLimiter

LEASE_S = 10.0


class Sleepy(MemoryLimiter):
    """Does not answer while it is `asleep`."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, lease_s=LEASE_S)
        self.awake = asyncio.Event()
        self.awake.set()

    async def renew(self, limit: SharedLimit, held: Sequence[Token], waiting: Sequence[Token]) -> TokenStatus:
        await self.awake.wait()
        return await super().renew(limit, held, waiting)


async def test_capacity_is_zero_after_the_lease_without_renewal() -> None:
    clock = ManualClock()
    limiter = Sleepy(clock)
    capacities: list[int] = []
    lease = CapacityLease(SharedLimit("group:modal", 4), limiter, clock, capacities.append)
    await lease.start()
    try:
        lease.set_demand(2)
        await clock.advance(0)
        assert capacities == [2]

        limiter.awake.clear()
        await clock.advance(LEASE_S)
        assert capacities == [2, 0]

        limiter.awake.set()
        await clock.advance(LEASE_S)
        assert capacities == [2, 0, 2]
    finally:
        await lease.stop()


async def test_no_run_takes_the_place_of_another_above_a_smaller_cap() -> None:
    """Two processes that each hold as many tokens as the new cap allows."""
    clock = ManualClock()
    limiter = MemoryLimiter(clock, lease_s=LEASE_S)
    leases = [CapacityLease(SharedLimit("g", 4), limiter, clock, lambda _: None) for _ in range(2)]
    for lease in leases:
        await lease.start()
        lease.set_demand(2)
    try:
        await clock.advance(0)
        assert [lease.capacity for lease in leases] == [2, 2]
        for lease in leases:
            lease.acquired()
        leases[0].acquired()
        for lease in leases:
            lease.resize(2)
        assert [lease.capacity for lease in leases] == [2, 1], "an idle token is released at once"
        await clock.advance(0)
        assert leases[0].released() == 1, "with the run of the other process, two is the cap"
        await clock.advance(0)
        assert [lease.capacity for lease in leases] == [1, 1]
    finally:
        for lease in leases:
            await lease.stop()


async def test_runs_whose_tokens_another_process_took_are_revoked() -> None:
    """The renewal after a long stop shows which tokens are left."""
    clock = ManualClock()
    limiter = Sleepy(clock)
    limit = SharedLimit("group:modal", 4)
    revoked: list[int] = []
    stopped = CapacityLease(limit, limiter, clock, lambda _: None, revoked.append)
    await stopped.start()
    try:
        stopped.set_demand(4)
        await clock.advance(0)
        for _ in range(4):
            stopped.acquired()
        limiter.awake.clear()
        await clock.advance(LEASE_S * 2)
        taken = await limiter.acquire(limit, [Token("1"), Token("2"), Token("3")])
        assert (len(taken.held), revoked) == (3, []), "nothing is known before the renewal"

        limiter.awake.set()
        await clock.advance(0)
        assert revoked[0] == 3
    finally:
        await stopped.stop()


async def test_all_runs_are_revoked_when_the_lease_ends_out_of_reach() -> None:
    clock = ManualClock()
    limiter = Unreachable(clock, lease_s=LEASE_S)
    revoked: list[int] = []
    lease = CapacityLease(SharedLimit("group:modal", 4), limiter, clock, lambda _: None, revoked.append)
    await lease.start()
    try:
        lease.set_demand(2)
        await clock.advance(0)
        lease.acquired()
        lease.acquired()
        limiter.reachable = False

        await clock.advance(LEASE_S * 0.85)
        assert revoked == []
        await clock.advance(LEASE_S * 0.1)
        assert revoked[0] == 2, "before the server grants the slots to another process"
    finally:
        limiter.reachable = True
        await lease.stop()


async def test_a_release_that_fails_is_repeated_at_a_bounded_rate() -> None:
    """Other processes wait for the tokens while the limiter is out of reach."""
    clock = ManualClock()
    limiter = Unreachable(clock, lease_s=LEASE_S)
    lease, other = (CapacityLease(SharedLimit("g", 1), limiter, clock, lambda _: None) for _ in range(2))
    for each in (lease, other):
        await each.start()
    try:
        lease.set_demand(1)
        await clock.advance(0)
        lease.acquired()
        other.set_demand(1)
        await clock.advance(0)
        limiter.reachable = False
        lease.released()
        await clock.advance(1.0)

        assert 1 <= limiter.refused <= 5
    finally:
        limiter.reachable = True
        for each in (lease, other):
            await each.stop()


class Unreachable(MemoryLimiter):
    reachable = True
    refused = 0

    async def release(self, limit: SharedLimit, tokens: Sequence[Token]) -> int:
        if not self.reachable:
            self.refused += 1
            raise LimiterUnavailableError("no connection")
        return await super().release(limit, tokens)

    async def renew(self, limit: SharedLimit, held: Sequence[Token], waiting: Sequence[Token]) -> TokenStatus:
        if not self.reachable:
            raise LimiterUnavailableError("no connection")
        return await super().renew(limit, held, waiting)


class Counting(MemoryLimiter):
    """Counts how often tokens are asked for."""

    asked = 0

    async def acquire(self, limit: SharedLimit, tokens: Sequence[Token]) -> TokenStatus:
        self.asked += 1
        return await super().acquire(limit, tokens)


async def test_an_unusable_token_is_exchanged_at_a_bounded_rate() -> None:
    """Two processes request the one slot and need a second token: each holds the slot for a time."""
    clock = ManualClock()
    limiter = Counting(clock, lease_s=LEASE_S)
    first, second = (
        CapacityLease(SharedLimit("slots:us-1", 1), limiter, clock, lambda _: None) for _ in range(2)
    )
    for lease in (first, second):
        await lease.start()
    try:
        for lease in (first, second):
            lease.set_demand(1)
        had = []
        for _ in range(100):
            await clock.advance(0.01)
            had.append((first.capacity, second.capacity))
        assert {(1, 0), (0, 1)} <= set(had), "the token is exchanged"
        assert limiter.asked < 2 + 100 * 0.01 / 0.05 + 5, "a few times a second"
    finally:
        for lease in (first, second):
            await lease.stop()


class SlowReleaseLimiter(MemoryLimiter):
    """Takes no token back before it is `free`."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, lease_s=LEASE_S)
        self.free = asyncio.Event()

    async def release(self, limit: SharedLimit, tokens: Sequence[Token]) -> int:
        await self.free.wait()
        return await super().release(limit, tokens)


async def test_capacity_drops_before_a_token_is_released() -> None:
    """The other router may have the token before the reply arrives here."""
    clock = ManualClock()
    limiter = SlowReleaseLimiter(clock)
    capacities: list[int] = []
    first = CapacityLease(SharedLimit("slots:us-1", 1), limiter, clock, capacities.append)
    second = CapacityLease(SharedLimit("slots:us-1", 1), limiter, clock, lambda _: None)
    for lease in (first, second):
        await lease.start()
    try:
        first.set_demand(1)
        await clock.advance(0)
        assert capacities == [1]
        second.set_demand(1)
        for _ in range(10):
            await clock.advance(0.01)
        assert capacities == [1, 0], "reported before the release"
    finally:
        limiter.free.set()
        for lease in (first, second):
            await lease.stop()
