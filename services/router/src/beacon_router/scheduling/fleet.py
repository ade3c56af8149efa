"""Backends of one region that serve the same models: how a free slot of theirs chooses."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from beacon_router.scheduling.asides import Asides
from beacon_router.scheduling.crowd import crowd_of
from beacon_router.scheduling.decisions import Reason
from beacon_router.scheduling.heads import Alarm, Heads
from beacon_router.scheduling.lanes import Lane, Queue
from beacon_router.scheduling.machines import Backend, Region
from beacon_router.scheduling.patience import Patience
from beacon_router.scheduling.placing import place
from beacon_router.scheduling.topology import Policy
from beacon_router.scheduling.turns import Turns

if TYPE_CHECKING:
    from beacon_router.scheduling.pools import Pool

_EXPRESS: Final = (Reason.GLOBAL_RETRY, Reason.REGION_RETRY, Reason.FRONT)

_STARVATION: Final = Reason.STARVATION
_AFFINITY: Final = Reason.AFFINITY
_ORDER: Final = Reason.ORDER
_MAIN: Final = Queue.MAIN
"""Asking an enum for a member costs as much as a call, and these are asked for in every decision."""
_JUMPS: Final = True

_FEW: Final = 8
"""So many models are asked one by one; the order of more is that of the line."""


@dataclass(slots=True)
class Pick:
    lane: Lane
    backend: Backend
    reason: Reason
    jumps: bool = False
    """It goes before others only because its model is loaded."""


class Fleet:
    __slots__ = (
        "_affine",
        "_alarm",
        "_batch_limit",
        "_express",
        "_express_limit",
        "_express_run",
        "_in_turn",
        "_patience",
        "_ranks",
        "_weights",
        "asides",
        "backends",
        "batch",
        "free",
        "limited",
        "models",
        "pool",
        "region",
        "served_at",
        "turns",
        "waiting",
    )

    def __init__(self, region: Region, models: frozenset[str], policy: Policy, patience: Patience) -> None:
        self.region = region
        self.models = models
        self.pool: Pool
        """Set when the pools are made."""
        self.backends: list[Backend] = []
        self.free: dict[Backend, None] = {}
        """Those with a slot, who have rested longest first."""
        self.batch = 0
        """Picks that jumped the line since the last one that did not."""
        self.limited = False
        """Whether some need tokens."""
        self.served_at = 0
        """The number of its last dispatch."""
        self.waiting = 0
        """In all lanes that it may take from."""
        self.asides = Asides(region, models)
        self._batch_limit = policy.batch_limit
        self._express_limit = policy.express_limit
        self._express_run = 0
        self._alarm = alarm = Alarm()
        self._express = Heads(region.guards, alarm)
        self._ranks = tuple(Heads(region.guards, alarm, tier.starvation_bound_s) for tier in policy.tiers)
        self._weights = [tier.weight for tier in policy.tiers]
        self.turns = Turns(self._weights)
        self._in_turn = [self._ranks[rank] for rank in self.turns.order]
        self._patience = patience
        self._affine: dict[str, tuple[list[Lane], ...]] = {
            model: tuple([] for _ in policy.tiers) for model in models
        }

    # Lanes that this fleet may take from

    def attach(self, lane: Lane) -> None:
        self.waiting += lane.live
        self.asides.changed(lane.model)
        self.heads_of(lane).attach(lane)
        if lane.queue is _MAIN:
            self._affine[lane.model][lane.rank].append(lane)

    def detach(self, lane: Lane) -> None:
        self.waiting -= lane.live
        self.asides.changed(lane.model)
        self.heads_of(lane).detach(lane)
        if lane.queue is _MAIN:
            self._affine[lane.model][lane.rank].remove(lane)

    def lanes(self) -> Iterator[Lane]:
        """Those that it may take from and in which somebody waits."""
        for heads in (self._express, *self._ranks):
            for lane in heads.lanes:
                if lane.live:
                    yield lane

    def heads_of(self, lane: Lane) -> Heads:
        """Where it looks for the head of this lane."""
        return self._ranks[lane.rank] if lane.queue is _MAIN else self._express

    # The choice

    def pick(self, now: float) -> Pick | None:
        """What a free slot of this fleet takes next; nothing is taken until `take`."""
        if self._patience.ends:
            self._patience.ends.pop(self, None)
        free = list(self.free)
        if self.limited:
            free = [backend for backend in free if backend.short_of is None]
        if not free:
            return None
        turn = None if now < self._alarm.at else self._turn(now)
        if self._express.entries and (turn is None or self._express_run < self._express_limit):
            lane = self._express.first()
            if lane is not None:
                return Pick(lane, place(lane.model, free), _EXPRESS[lane.queue])
        if turn is not None:
            return self._starvation(turn, free, now)
        loaded = self._loaded(free)
        if not loaded:
            return self._next_worth_it(free, now)
        return self._affinity(loaded, now) or self._first_or(loaded, free, now)

    def take(self, pick: Pick, number: int) -> None:
        """The pick is carried out as dispatch `number`."""
        self.served_at = number
        lane, backend, jumps = pick.lane, pick.backend, pick.jumps
        backend.used_at = number
        if lane.queue is not _MAIN:
            self._express_run += 1
            return
        self._express_run = 0
        self.batch = self.batch + 1 if jumps else 0
        if pick.reason is _STARVATION and not jumps:
            self.turns.take(lane.rank)
            self._in_turn = [self._ranks[rank] for rank in self.turns.order]

    def _turn(self, now: float) -> Lane | None:
        """The oldest head of the tier that has its turn, of those with a head past its bound."""
        for heads in self._in_turn:
            if heads.due_at <= now and (lane := heads.overdue(now)) is not None:
                return lane
        self._alarm.at = min(heads.due_at for heads in self._ranks)
        return None

    def _starvation(self, turn: Lane, free: list[Backend], now: float) -> Pick:
        """Who has the turn; before a load, a batch of those past their bound that need none."""
        backend = place(turn.model, free)
        if turn.model in backend.loaded:
            return Pick(turn, backend, _STARVATION)
        return self._overdue_and_loaded(free, now) or Pick(turn, backend, _STARVATION)

    def _overdue_and_loaded(self, free: list[Backend], now: float) -> Pick | None:
        """Of the heads past their bound, the first that a backend holds the model of, if batch is left."""
        best: Pick | None = None
        if self.batch >= self._batch_limit:
            return None
        for backend, first in self._loaded(free):
            lanes = self._affine[first.model]
            for rank, heads in enumerate(self._ranks):
                lane = _earliest(lanes[rank]) if heads.due_at <= now else None
                if lane is not None and lane.head.arrived + heads.bound_s <= now:
                    if best is None or _line(lane) < _line(best.lane):
                        best = Pick(lane, backend, _STARVATION, _JUMPS)
                    break
        return best

    def _affinity(self, loaded: list[tuple[Backend, Lane]], now: float) -> Pick | None:
        """The first that a backend holds the model of, if batch is left."""
        best: Pick | None = None
        top = self._top() if self.batch < self._batch_limit else None
        if top is None:
            return None
        for backend, lane in loaded:
            if best is not None and _line(best.lane) <= _line(lane):
                continue
            if lane is top:
                return Pick(lane, backend, _ORDER)
            if not self._endangers(backend, lane, top, now, runs=self._batch_limit - self.batch):
                best = Pick(lane, backend, _AFFINITY, _JUMPS)
        return best

    def _top(self) -> Lane | None:
        """The first by rank and arrival."""
        for heads in self._ranks:
            lane = heads.first()
            if lane is not None:
                return lane
        return None

    def _first_or(self, loaded: list[tuple[Backend, Lane]], free: list[Backend], now: float) -> Pick:
        """The first of the line, unless it waits for another backend: then the first that needs no load."""
        backend, lane = loaded[0] if len(loaded) == 1 else min(loaded, key=_line_of_loaded)
        top = self._top()
        if top is None or top is lane:
            return Pick(lane, backend, _ORDER)
        instead = place(top.model, free)
        if top.model in instead.loaded or self._endangers(backend, lane, top, now, runs=1):
            return Pick(top, instead, _ORDER)
        hope = self._patience.hope(self.region, top.model, now)
        aside = self._patience.aside_until([top], hope, free, now) is not None
        return Pick(lane, backend, _ORDER) if aside else Pick(top, instead, _ORDER)

    def _next_worth_it(self, free: list[Backend], now: float) -> Pick | None:
        """The first by rank and arrival of whose model not everybody stands aside."""
        patience, asides = self._patience, self.asides
        unsure: dict[str, float] = {}
        for lane in self._in_order(asides.ask(now)):
            model = lane.model
            waiting = [each for of_rank in self._affine[model] for each in of_rank if each.live]
            hope = patience.hope(self.region, model, now, crowd_of(waiting, self._weights))
            until = patience.aside_until(waiting, hope, free, now)
            if until is None:
                return Pick(lane, place(model, free), _ORDER)
            if hope.unsure:
                unsure[model] = until
            else:
                asides.settle(model, until)
        asides.unsettled = {model: None for model in asides.unsettled if model in unsure or self._shut(model)}
        end = min(asides.end(), *unsure.values()) if unsure else asides.end()
        if end < inf:
            patience.ends[self] = end
        return None

    def _in_order(self, models: Collection[str]) -> Iterable[Lane]:
        """By rank and arrival, lanes of those models that may run, the first of each among them."""
        if len(models) > _FEW:
            return self._in_line(models)
        firsts = []
        for model in models:
            lane = None if self._shut(model) else _first(self._affine[model])
            if lane is not None:
                firsts.append(lane)
        if len(firsts) > 1:
            firsts.sort(key=_line)
        return firsts

    def _in_line(self, models: Collection[str]) -> Iterator[Lane]:
        """By rank and arrival, lanes of models that are still among these when they are reached."""
        for heads in self._ranks:
            for lane in heads.in_order():
                if lane.model in models:
                    yield lane

    def _loaded(self, free: list[Backend]) -> list[tuple[Backend, Lane]]:
        """Each backend, with the first by rank and arrival of each model that it holds and may run."""
        guards, found = self.region.guards, []
        for backend in free:
            for model in backend.loaded:
                lanes = self._affine.get(model)
                if lanes is not None and (model not in guards or not guards[model].shut):
                    lane = _first(lanes)
                    if lane is not None:
                        found.append((backend, lane))
        return found

    def _shut(self, model: str) -> bool:
        guard = self.region.guards.get(model)
        return guard is not None and guard.shut

    def _endangers(self, backend: Backend, lane: Lane, top: Lane, now: float, *, runs: int) -> bool:
        """Whether so many runs of this lane could keep the first of the line waiting past its bound.

        Nobody else matters: without them they would wait for the first and its load instead.
        """
        remaining_s = top.head.arrived + self._ranks[top.rank].bound_s - now
        batch_s = min(lane.live, runs) * backend.runs_s.of(lane.model)
        return remaining_s < batch_s + backend.loads_s.of(top.model)


def _earliest(lanes: list[Lane]) -> Lane | None:
    """Of lanes of one model and rank, the one whose head came first."""
    best: Lane | None = None
    for lane in lanes:
        if lane.live and (best is None or lane.head.seq < best.head.seq):
            best = lane
    return best


def _first(lanes: tuple[list[Lane], ...]) -> Lane | None:
    """Of lanes of one model, the one whose head is first by rank and arrival."""
    for of_rank in lanes:
        lane = _earliest(of_rank)
        if lane is not None:
            return lane
    return None


def _line(lane: Lane) -> tuple[int, int]:
    return lane.rank, lane.head.seq


def _line_of_loaded(loaded: tuple[Backend, Lane]) -> tuple[int, int]:
    return _line(loaded[1])
