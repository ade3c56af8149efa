"""What a pool would do from here on, if runs took their average and the last arrivals came again."""

from collections.abc import Collection
from heapq import heappop, heappush

from beacon_router.scheduling.lanes import Lane, Queue, Ticket
from beacon_router.scheduling.pools import Pool
from beacon_router.scheduling.rehearsed_choice import Choice
from beacon_router.scheduling.stand_ins import Part, Seat, seats
from beacon_router.scheduling.topology import Policy

DISPATCHES = 200
"""A rehearsal ends after so many; what comes later is expected to go on at the same pace."""
_ARRIVALS = 2 * DISPATCHES
_CHOICES = DISPATCHES + 64
"""Slots that find nobody to take are counted, too: some may wait for what no slot can do."""


class Rehearsal:
    """Plays the rules of `Fleet.pick` in a simpler form: see docs/decisions/0007.

    Its cost is bounded by the number of lanes and by `DISPATCHES`, whatever the length of the lanes.
    """

    def __init__(self, now: float, pool: Pool, policy: Policy, lanes: Collection[Lane], last: int) -> None:
        self.made = now
        self.ended = now
        self.last = last
        """The number of the last one that waits for a part."""
        self.changes = pool.changes
        self.dispatches = 0
        self.parts: dict[Lane, Part] = {}
        self.starts: list[list[float]] = [[] for _ in policy.tiers]
        """Of the main queue, by rank."""
        self._seats = seats(now, pool)
        self._choice = Choice(pool, policy, self._seats)
        self.waiting = self._waiting = sum(lane.live for lane in lanes)
        for lane in lanes:
            self._choice.offer(self._part(lane))
        self._arrivals = pool.arrivals_again(now)
        self._arrival = next(self._arrivals, None)
        self._arrived = 0
        self._queue: list[tuple[float, int, Seat]] = []
        self._choices = 0
        self._play()

    # The answers

    def start_of(self, ticket: Ticket, lane: Lane, ahead: int) -> float:
        """The moment at which a ticket of this lane starts, `ahead` of all going before it."""
        part = self.parts.get(lane)
        found = None if part is None else part.start_of(ticket.ordinal)
        if found is not None:
            return found
        if lane.queue is not Queue.MAIN:
            return self.ended
        return self._later(lane.rank, ahead, lane.pool.ranks[lane.rank].ahead(ticket.place))

    def start_of_new(self, rank: int) -> float:
        """The moment at which one that came now would start."""
        clear = self._choice.clear[rank]
        if clear is not None:
            return clear
        if not self.dispatches:
            return self.ended
        return self._later(rank, self.waiting, self.waiting)

    def _later(self, rank: int, ahead: int, ahead_in_tier: int) -> float:
        """Not reached itself: when its place in its tier came up, or else at the pace of everybody."""
        starts = self.starts[rank]
        if ahead_in_tier < len(starts):
            return starts[ahead_in_tier]
        pace_s = (self.ended - self.made) / max(1, self.dispatches)
        return max(self.ended, self.made + pace_s * (ahead + 1))

    # The play

    def _play(self) -> None:
        idle: list[Seat] = []
        for seat in self._seats:
            self._free(seat.free_at, seat)
        while self._waiting and self.dispatches < DISPATCHES and self._choices < _CHOICES:
            if idle and (comes := self._comes_first()) is not None:
                self._wake(idle, comes)
            if not self._queue:
                break
            now, _, seat = heappop(self._queue)
            if seat.model is not None:
                seat.model = None
                self._wake(idle, now)
            self._arrive(now)
            part = self._choice.of(seat, now)
            if part is None:
                seat.free_at = now
                idle.append(seat)
            else:
                self._start(part, seat, now)
        self.ended = self._queue[0][0] if self._queue else self.made

    def _free(self, moment: float, seat: Seat) -> None:
        """The slot chooses then."""
        self._choices += 1
        heappush(self._queue, (moment, self._choices, seat))

    def _wake(self, idle: list[Seat], moment: float) -> None:
        """There is something new: those who found nobody look again."""
        for seat in idle:
            self._free(moment, seat)
        idle.clear()

    def _comes_first(self) -> float | None:
        """When somebody comes, if that is before a slot is free."""
        if self._arrival is None or (self._queue and self._queue[0][0] <= self._arrival[0]):
            return None
        return self._arrival[0]

    def _arrive(self, now: float) -> None:
        while self._arrival is not None and self._arrival[0] <= now:
            moment, lane = self._arrival
            part = self.parts.get(lane) or self._part(lane)
            self._arrived += 1
            self._arrival = next(self._arrivals, None) if self._arrived < _ARRIVALS else None
            self._choice.changed(part)
            if part.join(moment, _AFTER_ALL + self._arrived):
                self._choice.offer(part)

    def _start(self, part: Part, seat: Seat, now: float) -> None:
        self.dispatches += 1
        self._waiting -= part.real
        if part.main:
            self.starts[part.rank].append(now)
        loaded = list(seat.loaded)
        seat.take(part.model, part.size, now)
        self._choice.taken(seat, loaded)
        self._free(seat.free_at, seat)
        part.start(now)
        self._choice.changed(part)
        self._choice.offer(part)

    def _part(self, lane: Lane) -> Part:
        part = self.parts[lane] = Part(lane)
        self._choice.add(part)
        return part


_AFTER_ALL = 1 << 60
"""Numbers of those that come during the rehearsal start here."""
