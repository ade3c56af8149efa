"""One process's part of a shared limit: as many tokens as there is work for, given back when others wait."""

from collections.abc import Callable

import structlog

from beacon_lifecycle import Clock, TaskSet, WakeEvent
from beacon_router.limits.closing import close_surely
from beacon_router.limits.port import (
    Limit,
    LimiterAwayError,
    News,
    NewsKind,
    SlotLimiter,
    Standing,
    Token,
    new_token,
)

log = structlog.get_logger(__name__)

_BEATS_PER_LEASE = 3
# How long a token that has just come may wait to be used, because a run needs that of another limit too. Two
# processes that each wait for what the other has would pass theirs to and fro without a pause.
_MOMENT_S = 0.05


class LimitShare:
    """`capacity` may be used now. `changed` is called when news changed it, not for what `ended` returns."""

    def __init__(
        self, limit: Limit, limiter: SlotLimiter, clock: Clock, changed: Callable[[int], None]
    ) -> None:
        self.limit = limit
        self._limiter = limiter
        self._clock = clock
        self._changed = changed
        self._beat_s = limiter.lease_s / _BEATS_PER_LEASE
        self._held: dict[Token, None] = {}
        self._waiting: dict[Token, None] = {}
        self._returning: list[Token] = []
        self._demand = 0
        self._peak = 0
        self._used = 0
        self._contended = False
        self._granted_at = float("-inf")
        self._renewed_at = clock.now()
        self._look_again_at: float | None = None
        self._asked_to_renew = False
        self._announced = 0
        self._wakeup = WakeEvent()
        self._tasks = TaskSet(f"share:{limit.name}")
        limiter.watch(limit.name, self._hear)

    def __repr__(self) -> str:
        return (
            f"{self.limit.name}: uses {self._used} of {len(self._held)} held, {len(self._waiting)} in line, "
            f"{self._demand} wanted of {self.limit.cap}{', others wait' if self._contended else ''}"
        )

    @property
    def name(self) -> str:
        return f"share:{self.limit.name}"

    @property
    def capacity(self) -> int:
        """Without word from the limit for a whole lease nothing new may start."""
        overdue = self._clock.now() - self._renewed_at >= self._limiter.lease_s
        return 0 if overdue else len(self._held)

    # What the dispatcher says

    def want(self, demand: int) -> None:
        """How many tokens there is work for, those in use included."""
        if demand != self._demand:
            self._demand = demand
            self._peak = max(self._peak, demand)
            if self._plan_differs():
                self._wakeup.set()

    def started(self) -> None:
        self._used += 1

    def ended(self) -> int:
        """A run gave its token back; when others wait it is theirs. Returns the capacity that is left."""
        self._used -= 1
        if self._contended:
            self._give_back(1)
            self._give_back_idle()
        self._announced = self.capacity
        return self._announced

    # A service

    async def start(self) -> None:
        self._tasks.spawn("loop", self._loop())
        self._tasks.spawn("lease", self._watch_lease())

    async def wait(self) -> None:
        await self._tasks.failed.wait()
        if self._tasks.failure is not None:
            raise self._tasks.failure

    async def stop(self) -> None:
        """Give everything back: the others need not wait for the lease to end."""
        await close_surely(self._tasks)
        tokens = [*self._held, *self._waiting, *self._returning]
        self._held.clear()
        self._waiting.clear()
        self._returning.clear()
        if tokens:
            try:
                await self._limiter.release(self.limit, tokens)
            except LimiterAwayError as error:
                log.warning("slots_not_given_back", limit=self.limit.name, error=str(error))

    async def _loop(self) -> None:
        while True:
            try:
                await self.step()
            except LimiterAwayError as error:
                log.warning("limit_away", limit=self.limit.name, error=str(error))
            self._tell()
            await self._wakeup.wait(self._pause_s(), self._clock)

    async def _watch_lease(self) -> None:
        """The right to start ends with the lease, even while the limit's memory is being waited for."""
        while True:
            self._tell()
            left_s = self._renewed_at + self._limiter.lease_s - self._clock.now()
            await self._clock.sleep(max(left_s, self._beat_s / 4))

    async def step(self) -> None:
        """Bring the tokens in line with what is wanted."""
        if self._contended:
            self._give_back_idle()
        self._leave_line()
        if self._returning:
            await self._return()
        if self._missing > 0:
            tokens = [new_token() for _ in range(self._missing)]
            self._waiting |= dict.fromkeys(tokens)
            self._take_in(await self._limiter.acquire(self.limit, tokens))
        if self._renewal_due():
            await self._renew()

    # Inside

    @property
    def _missing(self) -> int:
        return self._demand - len(self._held) - len(self._waiting)

    def _plan_differs(self) -> bool:
        surplus = self._missing < 0 and (self._waiting or self._contended)
        return self._missing > 0 or bool(surplus)

    def _give_back_idle(self) -> None:
        """What nobody here wants, and what is wanted but has not been used for a moment."""
        idle = len(self._held) - self._used
        self._give_back(min(idle, len(self._held) - self._demand) if self._moment_s > 0 else idle)

    def _give_back(self, count: int) -> None:
        for _ in range(min(count, len(self._held) - self._used)):
            self._returning.append(self._held.popitem()[0])
        if self._returning:
            self._wakeup.set()

    @property
    def _moment_s(self) -> float:
        """What is left of the moment in which new tokens are kept though others wait."""
        return self._granted_at + _MOMENT_S - self._clock.now()

    def _leave_line(self) -> None:
        for _ in range(min(-self._missing, len(self._waiting))):
            self._returning.append(self._waiting.popitem()[0])

    async def _return(self) -> None:
        self._tell()  # nothing may start on them while they are on their way
        tokens, self._returning = self._returning, []
        try:
            await self._limiter.release(self.limit, tokens)
        except LimiterAwayError:
            self._returning += tokens
            raise

    async def _renew(self) -> None:
        asked_at = self._clock.now()
        self._asked_to_renew = False
        if not self._contended:
            self._drop_surplus()
        if self._returning:
            await self._return()
        held, waiting = list(self._held), list(self._waiting)
        standing = await self._limiter.renew(self.limit, held, waiting)
        for token in held:
            if token not in standing.held:
                self._held.pop(token, None)
        self._renewed_at = asked_at
        self._take_in(standing)

    def _drop_surplus(self) -> None:
        """What was not needed since the last beat."""
        keep = max(self._peak, self._demand, self._used)
        self._peak = self._demand
        for _ in range(len(self._held) - keep):
            self._returning.append(self._held.popitem()[0])

    def _take_in(self, standing: Standing) -> None:
        self._grant(standing.held)
        self._contended = standing.others_waiting > 0
        again_s = standing.look_again_s
        self._look_again_at = None if again_s is None else self._clock.now() + again_s

    def _grant(self, tokens: frozenset[Token]) -> None:
        for token in [token for token in self._waiting if token in tokens]:
            del self._waiting[token]
            self._held[token] = None
            self._granted_at = self._clock.now()

    def _hear(self, news: News) -> None:
        match news.kind:
            case NewsKind.GRANTED:
                self._grant(news.tokens)
                self._tell()
            case NewsKind.WANTED:
                self._contended = True
                if len(self._held) > self._used:
                    self._wakeup.set()
            case NewsKind.RENEW:
                self._asked_to_renew = True
                self._wakeup.set()

    def _tell(self) -> None:
        capacity = self.capacity
        if capacity != self._announced:
            self._announced = capacity
            self._changed(capacity)

    def _renewal_due(self) -> bool:
        now = self._clock.now()
        looks = self._look_again_at is not None and bool(self._waiting) and now >= self._look_again_at
        return self._asked_to_renew or looks or now - self._renewed_at >= self._beat_s

    def _pause_s(self) -> float:
        now = self._clock.now()
        pause_s = self._renewed_at + self._beat_s - now
        if self._look_again_at is not None and self._waiting:
            pause_s = min(pause_s, self._look_again_at - now)
        if self._contended and len(self._held) > self._used:
            pause_s = min(pause_s, max(self._moment_s, 0.01))
        return max(pause_s, 0.01) if pause_s > 0 else self._beat_s / 4
