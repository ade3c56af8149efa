"""Processes that lease a limit never exceed it together, even if replies are lost."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from beacon_lifecycle import ManualClock
from beacon_router.limits import CapacityLease, Token, TokenStatus
from beacon_router.limits.port import LimiterUnavailableError, LimitEvent, SharedLimit
from tests.fixtures.memory_limiter import MemoryLimiter

LEASE_S = 10.0
LIMIT = SharedLimit("group:modal", 2)
PROCESSES = 2
WHO = st.integers(0, PROCESSES - 1)
T = TypeVar("T")


class Forgetful:
    """Executes requests; while it `loses` replies, callers repeat them."""

    def __init__(self, limiter: MemoryLimiter) -> None:
        self.lease_s = limiter.lease_s
        self.loses = 0
        self._limiter = limiter

    def watch(self, name: str, callback: Callable[[LimitEvent], None]) -> None:
        self._limiter.watch(name, callback)

    def unwatch(self, name: str, callback: Callable[[LimitEvent], None]) -> None:
        self._limiter.unwatch(name, callback)

    async def acquire(self, limit: SharedLimit, tokens: Sequence[Token]) -> TokenStatus:
        return self._answer(await self._limiter.acquire(limit, tokens))

    async def renew(self, limit: SharedLimit, held: Sequence[Token], waiting: Sequence[Token]) -> TokenStatus:
        return self._answer(await self._limiter.renew(limit, held, waiting))

    async def release(self, limit: SharedLimit, tokens: Sequence[Token]) -> int:
        return self._answer(await self._limiter.release(limit, tokens))

    def _answer(self, answer: T) -> T:
        if self.loses:
            self.loses -= 1
            raise LimiterUnavailableError("the answer is lost")
        return answer


class Process:
    """Starts its work as soon as its lease allows, as a router does."""

    def __init__(self, limiter: MemoryLimiter, clock: ManualClock) -> None:
        self.limiter = Forgetful(limiter)
        self.lease = CapacityLease(LIMIT, self.limiter, clock, lambda _: self.pump(), self.abort)
        self.work = 0
        self.used = 0

    def pump(self) -> None:
        while self.used < min(self.work, self.lease.capacity):
            self.lease.acquired()
            self.used += 1
        self.lease.set_demand(self.work)

    def abort(self, count: int) -> None:
        """Aborted runs wait again."""
        for _ in range(count):
            self.used -= 1
            self.lease.released()

    def end_one(self) -> None:
        self.used -= 1
        self.work -= 1
        self.lease.released()
        self.pump()


class Sharing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.do(self.begin())

    def teardown(self) -> None:
        self.do(self.stop_all())
        self.runner.close()

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        self.runner.run(work)

    async def begin(self) -> None:
        limiter = MemoryLimiter(self.clock, lease_s=LEASE_S)
        self.processes = [Process(limiter, self.clock) for _ in range(PROCESSES)]
        for process in self.processes:
            await process.lease.start()

    async def stop_all(self) -> None:
        for process in self.processes:
            process.limiter.loses = 0
            await process.lease.stop()

    @rule(who=WHO, more=st.integers(1, 3), settle=st.booleans())
    def get_work(self, who: int, more: int, settle: bool) -> None:
        async def got() -> None:
            self.processes[who].work += more
            self.processes[who].pump()
            if settle:
                await self.clock.advance(0)

        self.do(got())

    @rule(who=WHO)
    def lose_work(self, who: int) -> None:
        """Waiting work is cancelled or taken by others."""
        process = self.processes[who]
        process.work = process.used
        process.pump()

    @precondition(lambda self: any(process.used for process in self.processes))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        busy = [who for who, process in enumerate(self.processes) if process.used]
        self.processes[data.draw(st.sampled_from(busy))].end_one()

    @rule(who=WHO, answers=st.integers(1, 2))
    def lose_answers(self, who: int, answers: int) -> None:
        self.processes[who].limiter.loses = answers

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.06, 1.0, LEASE_S / 3, LEASE_S, LEASE_S * 2]))
    def wait(self, seconds: float) -> None:
        self.do(self.clock.advance(seconds))

    @invariant()
    def no_more_is_used_than_there_is(self) -> None:
        leases = [process.lease for process in self.processes]
        assert sum(process.used for process in self.processes) <= LIMIT.cap, leases


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=100, stateful_step_count=30)
