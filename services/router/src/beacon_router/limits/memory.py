"""Limits in memory, for everything inside one process, with the rules of the port and nothing else."""

from collections.abc import Callable, Sequence

from beacon_lifecycle import Clock
from beacon_router.limits.port import Limit, News, NewsKind, Standing, Token


class MemoryLimiter:
    def __init__(self, clock: Clock, *, lease_s: float) -> None:
        self.lease_s = lease_s
        self._clock = clock
        self._places: dict[str, _Place] = {}
        self._told: dict[str, list[Callable[[News], None]]] = {}

    def watch(self, name: str, told: Callable[[News], None]) -> None:
        self._told.setdefault(name, []).append(told)

    async def acquire(self, limit: Limit, tokens: Sequence[Token]) -> Standing:
        place = self._place(limit)
        before = len(place.line)
        place.stand(tokens)
        self._serve(limit, place)
        if len(place.line) > before:
            self._tell(limit.name, News(NewsKind.WANTED))
        return place.standing(tokens)

    async def renew(self, limit: Limit, held: Sequence[Token], waiting: Sequence[Token]) -> Standing:
        place = self._place(limit, keep=held)
        place.claim(held, limit.cap)
        place.stand(waiting)
        self._serve(limit, place)
        return place.standing([*held, *waiting])

    async def release(self, limit: Limit, tokens: Sequence[Token]) -> int:
        place = self._place(limit)
        gone = place.drop(tokens)
        self._serve(limit, place)
        return gone

    def _place(self, limit: Limit, keep: Sequence[Token] = ()) -> "_Place":
        place = self._places.setdefault(limit.name, _Place(self.lease_s))
        place.move_on(self._clock.now(), keep)
        return place

    def _serve(self, limit: Limit, place: "_Place") -> None:
        granted = place.serve(limit.cap)
        if granted:
            self._tell(limit.name, News(NewsKind.GRANTED, frozenset(granted)))

    def _tell(self, name: str, news: News) -> None:
        for told in self._told.get(name, ()):
            told(news)


class _Place:
    """One limit: who holds a slot until when, and who stands in line until when, in order."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._now = 0.0
        self.slots: dict[Token, float] = {}
        self.line: dict[Token, float] = {}

    def move_on(self, now: float, keep: Sequence[Token]) -> None:
        """The dead lose what they had; the tokens to keep are renewed first."""
        self._now = now
        self.slots |= {token: now + self._lease_s for token in keep if token in self.slots}
        self.slots = {token: end for token, end in self.slots.items() if end > now}
        self.line = {token: end for token, end in self.line.items() if end > now}

    def stand(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            where = self.slots if token in self.slots else self.line
            where[token] = self._now + self._lease_s

    def claim(self, tokens: Sequence[Token], cap: int) -> None:
        for token in tokens:
            if token in self.slots or len(self.slots) < cap:
                self.slots[token] = self._now + self._lease_s

    def drop(self, tokens: Sequence[Token]) -> int:
        known = [token for token in tokens if token in self.slots or token in self.line]
        for token in known:
            self.slots.pop(token, None)
            self.line.pop(token, None)
        return len(known)

    def serve(self, cap: int) -> list[Token]:
        """Free slots go to the first in line."""
        granted: list[Token] = []
        while self.line and len(self.slots) < cap:
            token = next(iter(self.line))
            del self.line[token]
            self.slots[token] = self._now + self._lease_s
            granted.append(token)
        return granted

    def standing(self, tokens: Sequence[Token]) -> Standing:
        waiting = frozenset(token for token in tokens if token in self.line)
        ends = min(self.slots.values(), default=self._now + self._lease_s)
        return Standing(
            held=frozenset(token for token in tokens if token in self.slots),
            waiting=waiting,
            others_waiting=len(self.line) - len(waiting),
            look_again_s=max(0.0, ends - self._now) if self.line else None,
        )
