"""Limits in memory, for one process."""

from collections.abc import Callable, Sequence

from beacon_lifecycle import Clock
from beacon_router.limits.port import LimitEvent, LimitEventKind, SharedLimit, Token, TokenStatus


class MemoryLimiter:
    def __init__(self, clock: Clock, *, lease_s: float) -> None:
        self.lease_s = lease_s
        self._clock = clock
        self._states: dict[str, _LimitState] = {}
        self._callbacks: dict[str, list[Callable[[LimitEvent], None]]] = {}

    def watch(self, name: str, callback: Callable[[LimitEvent], None]) -> None:
        self._callbacks.setdefault(name, []).append(callback)

    async def acquire(self, limit: SharedLimit, tokens: Sequence[Token]) -> TokenStatus:
        state = self._state(limit)
        before = len(state.queue)
        state.enqueue(tokens)
        self._grant_free(limit, state)
        if len(state.queue) > before:
            self._notify(limit.name, LimitEvent(LimitEventKind.WANTED))
        return state.status(tokens)

    async def renew(self, limit: SharedLimit, held: Sequence[Token], waiting: Sequence[Token]) -> TokenStatus:
        state = self._state(limit, keep=held)
        state.claim(held, limit.cap)
        state.enqueue(waiting)
        self._grant_free(limit, state)
        return state.status([*held, *waiting])

    async def release(self, limit: SharedLimit, tokens: Sequence[Token]) -> int:
        state = self._state(limit)
        released = state.drop(tokens)
        self._grant_free(limit, state)
        return released

    def _state(self, limit: SharedLimit, keep: Sequence[Token] = ()) -> "_LimitState":
        state = self._states.setdefault(limit.name, _LimitState(self.lease_s))
        state.expire(self._clock.now(), keep)
        return state

    def _grant_free(self, limit: SharedLimit, state: "_LimitState") -> None:
        granted = state.grant_free(limit.cap)
        if granted:
            self._notify(limit.name, LimitEvent(LimitEventKind.GRANTED, frozenset(granted)))

    def _notify(self, name: str, event: LimitEvent) -> None:
        for callback in self._callbacks.get(name, ()):
            callback(event)


class _LimitState:
    """One limit: tokens that hold a slot and tokens in the queue, in order, each with its lease end."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._now = 0.0
        self.slots: dict[Token, float] = {}
        self.queue: dict[Token, float] = {}

    def expire(self, now: float, keep: Sequence[Token]) -> None:
        """Drop expired leases; the tokens to keep are renewed first."""
        self._now = now
        self.slots |= {token: now + self._lease_s for token in keep if token in self.slots}
        self.slots = {token: end for token, end in self.slots.items() if end > now}
        self.queue = {token: end for token, end in self.queue.items() if end > now}

    def enqueue(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            where = self.slots if token in self.slots else self.queue
            where[token] = self._now + self._lease_s

    def claim(self, tokens: Sequence[Token], cap: int) -> None:
        for token in tokens:
            if token in self.slots or len(self.slots) < cap:
                self.slots[token] = self._now + self._lease_s

    def drop(self, tokens: Sequence[Token]) -> int:
        known = [token for token in tokens if token in self.slots or token in self.queue]
        for token in known:
            self.slots.pop(token, None)
            self.queue.pop(token, None)
        return len(known)

    def grant_free(self, cap: int) -> list[Token]:
        """Grant free slots to the first tokens in the queue."""
        granted: list[Token] = []
        while self.queue and len(self.slots) < cap:
            token = next(iter(self.queue))
            del self.queue[token]
            self.slots[token] = self._now + self._lease_s
            granted.append(token)
        return granted

    def status(self, tokens: Sequence[Token]) -> TokenStatus:
        waiting = frozenset(token for token in tokens if token in self.queue)
        ends = min(self.slots.values(), default=self._now + self._lease_s)
        return TokenStatus(
            held=frozenset(token for token in tokens if token in self.slots),
            waiting=waiting,
            others_waiting=len(self.queue) - len(waiting),
            recheck_in_s=max(0.0, ends - self._now) if self.queue else None,
        )
