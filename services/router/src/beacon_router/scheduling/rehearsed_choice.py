"""Whom a slot takes in a rehearsal: the rules of `Fleet.pick` in a simpler form."""

from heapq import heappop, heappush
from math import inf

from beacon_router.scheduling.crowd import Crowd
from beacon_router.scheduling.patience import Allowance, Hope, allowance, stand_aside
from beacon_router.scheduling.pools import Pool
from beacon_router.scheduling.stand_ins import NOBODY, Part, Seat
from beacon_router.scheduling.topology import Policy

Heap = list[tuple[int, int, Part]]


class Choice:
    """See docs/decisions/0007 for what is simpler."""

    def __init__(self, pool: Pool, policy: Policy, seats: list[Seat]) -> None:
        self.clear: list[float | None] = [None for _ in policy.tiers]
        """By rank, when a slot first found nobody of this rank or above."""
        self._policy = policy
        self._bounds = [tier.starvation_bound_s for tier in policy.tiers]
        self._weights = [tier.weight for tier in policy.tiers]
        self._seats = seats
        self._caps = _caps(pool, seats)
        self._turns = {fleet: fleet.turns.copy() for fleet in pool.fleets}
        self._batches = {fleet: fleet.batch for fleet in pool.fleets}
        self._express: Heap = []
        self._ranks: list[Heap] = [[] for _ in policy.tiers]
        self._of_model: dict[str, list[Part]] = {}
        self._aside: dict[str, float] = {}
        """As in `Fleet`."""

    def add(self, part: Part) -> None:
        """It plays from now on."""
        if part.main:
            of_model = self._of_model.setdefault(part.model, [])
            of_model.append(part)
            of_model.sort(key=_rank)

    def changed(self, part: Part) -> None:
        """Somebody joined or left."""
        self._aside.pop(part.model, None)

    def taken(self, seat: Seat, loaded: list[str]) -> None:
        """A slot runs on, and before it held these models."""
        for model in (*loaded, *seat.loaded):
            self._aside.pop(model, None)

    def offer(self, part: Part) -> None:
        """Its head is new."""
        if part.seq != NOBODY:
            heap = self._ranks[part.rank] if part.main else self._express
            heappush(heap, (0 if part.main else part.lane.queue, part.seq, part))

    def of(self, seat: Seat, now: float) -> Part | None:
        """The part whose head the slot takes."""
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
        return self._affine(seat, tops[0], now) or self._in_order(seat, tops[0], now)

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

    def _in_order(self, seat: Seat, top: Part, now: float) -> Part | None:
        loaded = min(self._held(seat), key=_line, default=None)
        part = self._next_worth_it(seat, now) if loaded is None else self._first_or(loaded, seat, top, now)
        if part is not None:
            self._batches[seat.backend.fleet] = 0
        return part

    def _first_or(self, loaded: Part, seat: Seat, top: Part, now: float) -> Part:
        if top.model in seat.loaded:
            return top
        backend = seat.backend
        left_s = top.arrived + self._bounds[top.rank] - now
        if left_s < backend.runs_s.of(loaded.model) + backend.loads_s.of(top.model):
            return top
        return loaded if self._aside_until(seat, [top], self._hope(top.model, now), now) else top

    def _next_worth_it(self, seat: Seat, now: float) -> Part | None:
        aside = self._aside
        for model in [model for model, until in aside.items() if until <= now]:
            del aside[model]
        for heap in self._ranks:
            heap.sort()  # which leaves it a heap, and is soon done when it was sorted before
            for _, seq, part in [entry for entry in heap if entry[2].model not in aside]:
                model = part.model
                if part.seq != seq or model in aside or not self._may_run(part, seat):
                    continue
                waiting = [other for other in self._of_model[model] if other.seq != NOBODY]
                until = self._aside_until(seat, waiting, self._hope(model, now, self._crowd(waiting)), now)
                if until is None:
                    return part
                aside[model] = until
        return None

    def _hope(self, model: str, now: float, crowd: Crowd | None = None) -> Hope:
        """As in `Patience`: for another slot that has the model."""
        free_at = [other.free_at for other in self._seats if model in other.loaded]
        return Hope(max(now, min(free_at, default=inf)), unsure=False, gpus=len(free_at) + 1, crowd=crowd)

    def _aside_until(self, seat: Seat, parts: list[Part], hope: Hope, now: float) -> float | None:
        if hope.soonest == inf:
            return None
        allowed = [part.allowance or self._allowance(seat, part, now) for part in parts]
        until = stand_aside(allowed, hope)
        if until is not None:
            for part, own in zip(parts, allowed, strict=True):
                part.allowance = own
        return until

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

    def _crowd(self, parts: list[Part]) -> Crowd:
        pace, begun = 0, 0.0
        for part in parts:
            each = self._weights[part.rank] * part.live
            pace += each
            begun += each * part.arrived
        return Crowd(pace, begun)


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
