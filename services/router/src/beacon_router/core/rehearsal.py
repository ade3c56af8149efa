"""What a pool would do from here on, if runs took their average and the last arrivals came again."""

from collections.abc import Collection
from heapq import heappop, heappush
from math import fsum

from beacon_router.core.crowd import Crowd
from beacon_router.core.lanes import Lane, Queue, Ticket
from beacon_router.core.patience import TWICE, Allowance, allowance
from beacon_router.core.pools import Pool
from beacon_router.core.stand_ins import NOBODY, Part, Seat, seats
from beacon_router.core.topology import Policy

DISPATCHES = 200
"""A rehearsal ends after so many; what comes later is expected to go on at the same pace."""
_ARRIVALS = 2 * DISPATCHES
_CHOICES = DISPATCHES + 64
"""Slots that find nobody to take are counted, too: some may wait for what no slot can do."""

Heap = list[tuple[int, int, Part]]


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
        self.clear: list[float | None] = [None for _ in policy.tiers]
        """By rank, when a slot first found nobody of this rank or above."""
        self._policy = policy
        self._bounds = [tier.starvation_bound_s for tier in policy.tiers]
        self._seats = seats(now, pool)
        self._caps = _caps(pool, self._seats)
        self._turns = {fleet: fleet.turns.copy() for fleet in pool.fleets}
        self._batches = {fleet: fleet.batch for fleet in pool.fleets}
        self._express: Heap = []
        self._ranks: list[Heap] = [[] for _ in policy.tiers]
        self._of_model: dict[str, list[Part]] = {}
        self.waiting = self._waiting = sum(lane.live for lane in lanes)
        for lane in lanes:
            self._offer(self._part(lane))
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
        clear = self.clear[rank]
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
            part = self._choose(seat, now)
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
            if part.join(moment, _AFTER_ALL + self._arrived):
                self._offer(part)

    def _start(self, part: Part, seat: Seat, now: float) -> None:
        self.dispatches += 1
        self._waiting -= part.real
        if part.main:
            self.starts[part.rank].append(now)
        seat.take(part.model, now)
        self._free(seat.free_at, seat)
        part.start(now)
        self._offer(part)

    def _part(self, lane: Lane) -> Part:
        part = self.parts[lane] = Part(lane)
        if part.main:
            of_model = self._of_model.setdefault(part.model, [])
            of_model.append(part)
            of_model.sort(key=_rank)
        return part

    def _offer(self, part: Part) -> None:
        if part.seq != NOBODY:
            heap = self._ranks[part.rank] if part.main else self._express
            heappush(heap, (0 if part.main else part.lane.queue, part.seq, part))

    # The choice

    def _choose(self, seat: Seat, now: float) -> Part | None:
        if self._express and (part := self._first(self._express, seat)) is not None:
            return part
        tops = [part for heap in self._ranks if heap and (part := self._first(heap, seat)) is not None]
        for rank in range(tops[0].rank if tops else len(self.clear)):
            if self.clear[rank] is None:
                self.clear[rank] = now
        if not tops:
            return None
        overdue = [part for part in tops if now - part.arrived >= self._bounds[part.rank]]
        if overdue:
            return self._starving(seat, overdue, now)
        return self._affine(seat, tops[0], now) or self._in_order(seat, now)

    def _first(self, heap: Heap, seat: Seat) -> Part | None:
        """The first head that the slot may run; heads that have gone are dropped."""
        while heap:
            _, seq, part = heap[0]
            if part.seq == seq:
                return part if self._may_run(part, seat) else self._beyond_the_first(heap, seat)
            heappop(heap)
        return None

    def _beyond_the_first(self, heap: Heap, seat: Seat) -> Part | None:
        live = (entry for entry in sorted(heap) if entry[2].seq == entry[1])
        return next((part for _, _, part in live if self._may_run(part, seat)), None)

    def _may_run(self, part: Part, seat: Seat) -> bool:
        model = part.model
        if model not in seat.models:
            return False
        cap = self._caps.get(model)
        return cap is None or cap > sum(other.model == model for other in self._seats)

    def _starving(self, seat: Seat, overdue: list[Part], now: float) -> Part:
        ranks = [part.rank for part in overdue]
        fleet = seat.backend.fleet
        turns = self._turns[fleet]
        rank = turns.choose(ranks)
        turn = overdue[ranks.index(rank)]
        if turn.model not in seat.loaded and self._batches[fleet] < self._policy.batch_limit:
            for part in self._held(seat):
                if now - part.arrived >= self._bounds[part.rank]:
                    self._batches[fleet] += 1
                    return part
        self._batches[fleet] = 0
        turns.take(rank)
        return turn

    def _affine(self, seat: Seat, top: Part, now: float) -> Part | None:
        fleet = seat.backend.fleet
        if self._batches[fleet] >= self._policy.batch_limit:
            return None
        for part in self._held(seat):
            if part is top:
                self._batches[fleet] = 0
                return part
            if not self._endangers(seat, part, top, now):
                self._batches[fleet] += 1
                return part
        return None

    def _held(self, seat: Seat) -> list[Part]:
        """The first of each model that the slot has loaded."""
        firsts = []
        for model in seat.loaded:
            waiting = (part for part in self._of_model.get(model, ()) if part.seq != NOBODY)
            part = next(waiting, None)
            if part is not None and self._may_run(part, seat):
                firsts.append(part)
        return firsts

    def _endangers(self, seat: Seat, part: Part, top: Part, now: float) -> bool:
        backend = seat.backend
        left = self._policy.batch_limit - self._batches[backend.fleet]
        batch_s = left * backend.runs_s.of(part.model)
        return top.arrived + self._bounds[top.rank] - now < batch_s + backend.loads_s.of(top.model)

    def _in_order(self, seat: Seat, now: float) -> Part | None:
        loaded = min(self._held(seat), key=_line, default=None)
        aside: set[str] = set()
        for heap in self._ranks:
            part = self._first_worth_it(heap, seat, loaded, aside, now)
            if part is not None:
                self._batches[seat.backend.fleet] = 0
                return part
        return None

    def _first_worth_it(
        self, heap: Heap, seat: Seat, loaded: Part | None, aside: set[str], now: float
    ) -> Part | None:
        passed: Heap = []
        found: Part | None = None
        while heap and found is None:
            _, seq, part = entry = heappop(heap)
            if part.seq == seq:
                passed.append(entry)
                if part.model in aside or not self._may_run(part, seat):
                    continue
                if part.model in seat.loaded or not self._stands_aside(seat, part, loaded, now):
                    found = part
                else:
                    found = loaded
                    aside.add(part.model)
        for entry in passed:
            heappush(heap, entry)
        return found

    def _stands_aside(self, seat: Seat, part: Part, loaded: Part | None, now: float) -> bool:
        """As in `Fleet` and `Patience`: for who needs no load, or for another slot that has its model."""
        crowd, holders = self._crowd(part.model), self._holders(part.model)
        full = len(seat.loaded) >= seat.room
        if loaded is not None:
            bound = part.arrived + self._bounds[part.rank]
            runs_s, loads_s = seat.backend.runs_s, seat.backend.loads_s
            if bound - now < runs_s.of(loaded.model) + loads_s.of(part.model):
                return False
            if full and (goes := self._crowd(seat.loaded[0])).pace:
                share = goes.weight(now) / len(self._holders(seat.loaded[0]))
                if crowd.weight(now) / (len(holders) + 1) < TWICE * share:
                    return True
        if not holders:
            return False
        allowed = part.allowance or self._allowance(seat, part, now)
        crowded = crowd.weighs_at(allowed.weight * (len(holders) + 1))
        if max(now, min(holders)) >= min(allowed.until, crowded):
            return False
        part.allowance = allowed
        return True

    def _allowance(self, seat: Seat, part: Part, now: float) -> Allowance:
        loads_s = seat.backend.loads_s
        return allowance(
            now,
            self._policy.patience,
            load_s=loads_s.of(part.model),
            reload_s=loads_s.of(seat.loaded[0]) if len(seat.loaded) >= seat.room else None,
            rested=seat.rested,
            bound=part.arrived + self._bounds[part.rank],
        )

    def _holders(self, model: str) -> list[float]:
        """When the slots that have the model loaded are free."""
        return [seat.free_at for seat in self._seats if model in seat.loaded]

    def _crowd(self, model: str) -> Crowd:
        parts = [part for part in self._of_model.get(model, ()) if part.seq != NOBODY]
        weights = [self._policy.tiers[part.rank].weight * part.live for part in parts]
        begun = [weight * part.arrived for weight, part in zip(weights, parts, strict=True)]
        return Crowd(sum(weights), fsum(begun))


_AFTER_ALL = 1 << 60
"""Numbers of those that come during the rehearsal start here."""


def _rank(part: Part) -> int:
    return part.rank


def _line(part: Part) -> tuple[int, int]:
    return part.rank, part.seq


def _caps(pool: Pool, found: list[Seat]) -> dict[str, int]:
    """How many runs at once the models that have such a limit may have on these slots."""
    caps: dict[str, int] = {}
    for model, guard in pool.fleets[0].region.guards.items() if pool.fleets else ():
        caps[model] = 1
        if not guard.exclusive and guard.limit is not None:
            here = sum(seat.model == model for seat in found)
            caps[model] = max(1, here + guard.limit.held - guard.limit.used)
    return caps
