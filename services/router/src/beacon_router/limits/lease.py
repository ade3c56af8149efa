"""The slots of a shared limit that this process holds, according to its demand and that of others."""

import asyncio
from collections.abc import Callable

import structlog

from beacon_lifecycle import Clock, TaskSet, WakeEvent
from beacon_router.limits.port import (
    LimiterUnavailableError,
    LimitEvent,
    LimitEventKind,
    SharedLimit,
    SlotLimiter,
    Token,
    TokenStatus,
    new_token,
)

log = structlog.get_logger(__name__)

RENEWALS_PER_LEASE = 3
# How long a granted token may stay unused although others wait, because a run may need a token of another
# limit too. Otherwise two processes that each wait for the other's token would exchange theirs continuously.
HOLD_UNUSED_S = 0.05
# The part of the lease after the last renewal in which its tokens count here. The rest is the time in which
# aborted calls end at the backends before the server grants their slots to another process.
USABLE_PART = 0.9
CANCEL_AGAIN_S = 0.2


class CapacityLease:
    """A service. `changed` is called with each new capacity, except those that `released` returns; `revoked`
    with the number of runs that must be aborted because their tokens are lost."""

    def __init__(
        self,
        limit: SharedLimit,
        limiter: SlotLimiter,
        clock: Clock,
        changed: Callable[[int], None],
        revoked: Callable[[int], None] | None = None,
    ) -> None:
        self.limit = limit
        self._limiter = limiter
        self._clock = clock
        self._changed = changed
        self._revoked = revoked
        self._renew_every_s = limiter.lease_s / RENEWALS_PER_LEASE
        self._held: dict[Token, None] = {}
        self._waiting: dict[Token, None] = {}
        self._releasing: list[Token] = []
        self._demand = 0
        self._peak = 0
        self._used = 0
        self._contended = False
        self._granted_at = float("-inf")
        self._renewed_at = clock.now()
        self._unreachable = False
        self._recheck_at: float | None = None
        self._renew_requested = False
        self._reported = 0
        self._wakeup = WakeEvent()
        self._tasks = TaskSet(f"lease:{limit.name}")
        limiter.watch(limit.name, self._on_event)

    def __repr__(self) -> str:
        return (
            f"{self.limit.name}: uses {self._used} of {len(self._held)} held, {len(self._waiting)} queued, "
            f"demand {self._demand} of {self.limit.cap}{', others wait' if self._contended else ''}"
        )

    @property
    def name(self) -> str:
        return f"lease:{self.limit.name}"

    @property
    def capacity(self) -> int:
        """Slots in which runs may start now; 0 after the lease has ended."""
        return 0 if self._overdue else min(len(self._held), self.limit.cap)

    @property
    def ends_at(self) -> float:
        """When the lease ends without another renewal."""
        return self._renewed_at + self._limiter.lease_s * USABLE_PART

    @property
    def _overdue(self) -> bool:
        return self._clock.now() >= self.ends_at

    @property
    def _sustained(self) -> int:
        """Runs that may go on. After a lease that ended because this process was stopped, the next renewal
        shows which tokens are left; if the limiter cannot be reached, none can be relied on."""
        return 0 if self._overdue and self._unreachable else len(self._held)

    # Calls of the dispatcher

    def set_demand(self, demand: int) -> None:
        """The number of tokens that waiting work could use, including those in use; 0: nothing waits."""
        if demand != self._demand:
            self._demand = demand
            self._peak = max(self._peak, demand)
            missing = demand - len(self._held) - len(self._waiting)
            if missing > 0 or (missing < 0 and (self._waiting or self._contended)):
                self._wakeup.set()

    def resize(self, cap: int) -> None:
        """The cap has changed. Runs go on beyond a smaller one, but none takes the place of one that ends
        while all processes together exceed it. The queue may advance under a larger one."""
        if cap != self.limit.cap:
            smaller = cap < self.limit.cap
            self.limit = SharedLimit(self.limit.name, cap)
            if smaller:
                self._contended = True
                self._release(len(self._held))
            self._reported = self.capacity
            self._renew_requested = True
            self._wakeup.set()

    def acquired(self) -> None:
        self._used += 1
        self._peak = max(self._peak, self._used)

    def released(self) -> int:
        """A run has ended; its slot is released if other processes wait. Returns the remaining capacity."""
        self._used -= 1
        if self._contended:
            self._release(1)
            self._release_idle()
            self._reported = self.capacity
        return self._reported

    # The service contract

    async def start(self) -> None:
        self._tasks.spawn("loop", self._loop())
        self._tasks.spawn("lease", self._watch_lease())

    async def wait(self) -> None:
        await self._tasks.failed.wait()
        if self._tasks.failure is not None:
            raise self._tasks.failure

    async def stop(self) -> None:
        """Release all slots, so that other processes need not wait for the lease to end."""
        self._limiter.unwatch(self.limit.name, self._on_event)
        await _cancel_until_done(self._tasks)
        tokens = [*self._held, *self._waiting, *self._releasing]
        self._held.clear()
        self._waiting.clear()
        self._releasing.clear()
        if tokens:
            try:
                await self._limiter.release(self.limit, tokens)
            except LimiterUnavailableError as error:
                log.warning("slot_release_failed", limit=self.limit.name, error=str(error))

    async def _loop(self) -> None:
        while True:
            try:
                await self.step()
            except LimiterUnavailableError as error:
                self._unreachable = True
                log.warning("limit_unavailable", limit=self.limit.name, error=str(error))
            self.report()
            await self._wakeup.wait(self._pause_s(), self._clock)

    async def _watch_lease(self) -> None:
        """The capacity ends with the lease, even while a request to the limiter is pending."""
        while True:
            self.report()
            left_s = self.ends_at - self._clock.now()
            await self._clock.sleep(max(left_s, self._renew_every_s / 4))

    async def step(self) -> None:
        """Renew, release and acquire tokens to match the demand."""
        if self._renewal_due():
            await self._renew()
        if self._contended:
            self._release_idle()
        self._leave_queue()
        if self._releasing:
            await self._send_releases()
        if self._missing > 0:
            tokens = [new_token() for _ in range(self._missing)]
            self._waiting |= dict.fromkeys(tokens)
            self._update(await self._limiter.acquire(self.limit, tokens))

    # Inside

    @property
    def _missing(self) -> int:
        return self._demand - len(self._held) - len(self._waiting)

    def _release_idle(self) -> None:
        """Release slots without demand, and those with demand that stay unused for too long."""
        idle = len(self._held) - self._used
        self._release(min(idle, len(self._held) - self._demand) if self._hold_unused_s > 0 else idle)

    def _release(self, count: int) -> None:
        for _ in range(min(count, len(self._held) - self._used)):
            self._releasing.append(self._held.popitem()[0])
            self._wakeup.set()

    @property
    def _hold_unused_s(self) -> float:
        """How long newly granted tokens are still kept although others wait."""
        return self._granted_at + HOLD_UNUSED_S - self._clock.now()

    def _leave_queue(self) -> None:
        for _ in range(min(-self._missing, len(self._waiting))):
            self._releasing.append(self._waiting.popitem()[0])

    async def _send_releases(self) -> None:
        self.report()  # first, so that no run starts on them
        tokens, self._releasing = self._releasing, []
        try:
            await self._limiter.release(self.limit, tokens)
        except LimiterUnavailableError:
            self._releasing += tokens
            raise

    async def _renew(self) -> None:
        sent_at = self._clock.now()
        self._renew_requested = False
        if not self._contended:
            self._drop_surplus()
        if self._releasing:
            await self._send_releases()
        held, waiting = list(self._held), list(self._waiting)
        status = await self._limiter.renew(self.limit, held, waiting)
        for token in held:
            if token not in status.held:
                self._held.pop(token, None)
        self._renewed_at = sent_at
        self._unreachable = False
        self._update(status)
        self.report()

    def _drop_surplus(self) -> None:
        """Release slots that were not needed since the last renewal."""
        keep = max(self._peak, self._demand, self._used)
        self._peak = max(self._demand, self._used)
        for _ in range(len(self._held) - keep):
            self._releasing.append(self._held.popitem()[0])

    def _update(self, status: TokenStatus) -> None:
        self._grant(status.held)
        self._contended = status.wanted > 0
        recheck_s = status.recheck_in_s
        self._recheck_at = None if recheck_s is None else self._clock.now() + recheck_s

    def _grant(self, tokens: frozenset[Token]) -> None:
        for token in [token for token in self._waiting if token in tokens]:
            del self._waiting[token]
            self._held[token] = None
            self._granted_at = self._clock.now()

    def _on_event(self, event: LimitEvent) -> None:
        match event.kind:
            case LimitEventKind.GRANTED:
                self._grant(event.tokens)
                self.report()
            case LimitEventKind.WANTED:
                self._contended = True
                if len(self._held) > self._used:
                    self._wakeup.set()
            case LimitEventKind.RENEW:
                self._renew_requested = True
                self._wakeup.set()

    def report(self) -> None:
        """Report a changed capacity, and the runs that have lost their tokens."""
        capacity = self.capacity
        if capacity != self._reported:
            self._reported = capacity
            self._changed(capacity)
        if self._revoked is not None and self._used > self._sustained:
            self._revoked(self._used - self._sustained)

    def _renewal_due(self) -> bool:
        now = self._clock.now()
        recheck_due = self._recheck_at is not None and bool(self._waiting) and now >= self._recheck_at
        return self._renew_requested or recheck_due or now - self._renewed_at >= self._renew_every_s

    def _pause_s(self) -> float:
        now = self._clock.now()
        pause_s = self._renewed_at + self._renew_every_s - now
        if self._recheck_at is not None and self._waiting:
            pause_s = min(pause_s, self._recheck_at - now)
        if self._contended and len(self._held) > self._used:
            pause_s = min(pause_s, max(self._hold_unused_s, 0.01))
        if self._releasing:  # the last request failed
            pause_s = min(pause_s, self._renew_every_s / 4)
        return max(pause_s, 0.01) if pause_s > 0 else self._renew_every_s / 4


async def _cancel_until_done(tasks: TaskSet) -> None:
    """Repeats the cancellation, because the client library may swallow it while it connects."""
    while True:
        try:
            async with asyncio.timeout(CANCEL_AGAIN_S):
                await tasks.close()
                return
        except TimeoutError:
            continue
