"""Deliberately broken schedulers: one small fault each, and the rule that must notice it."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from beacon_router.scheduling.crowd import Crowd
from beacon_router.scheduling.decisions import Decision, Health, Reason, Start
from beacon_router.scheduling.dispatch import Dispatcher
from beacon_router.scheduling.fleet import Fleet, Pick
from beacon_router.scheduling.floor import Floor
from beacon_router.scheduling.heads import Guard
from beacon_router.scheduling.lanes import NOBODY, Lane, Queue, Ticket
from beacon_router.scheduling.limits import Limit
from beacon_router.scheduling.machines import Backend, Region
from beacon_router.scheduling.patience import Allowance, Hope, Patience
from beacon_router.scheduling.placing import place
from beacon_router.scheduling.queues import Queues
from beacon_router.scheduling.topology import BackendSpec
from beacon_router.scheduling.turns import Turns
from benchmarks.scheduling.invariants import Rule

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    rule: Rule
    break_it: Patch


def _forgets_one_when_another_is_cancelled(patch: pytest.MonkeyPatch) -> None:
    forget = Dispatcher.forget

    def broken(self: Dispatcher, ticket: Ticket, lane: Lane) -> None:
        forget(self, ticket, lane)
        if lane.head is not NOBODY:
            self._queues.leave(lane.head, lane)

    patch.setattr(Dispatcher, "forget", broken)


def _starts_one_twice(patch: pytest.MonkeyPatch) -> None:
    dispatch = Dispatcher._dispatch

    def broken(self: Dispatcher, now: float, region: Region, decisions: list[Decision]) -> bool:
        started = dispatch(self, now, region, decisions)
        if started and region.concurrency - region.room == 2:
            decisions.append(decisions[-1])
        return started

    patch.setattr(Dispatcher, "_dispatch", broken)


def _runs_what_a_backend_does_not_serve(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Floor, region: str, model: str) -> list[Fleet]:
        del model
        return self.regions[region].fleets

    attach = Fleet.attach

    def without_affinity(self: Fleet, lane: Lane) -> None:
        self._affine.setdefault(lane.model, tuple([] for _ in self._ranks))
        attach(self, lane)

    patch.setattr(Floor, "fleets", broken)
    patch.setattr(Fleet, "attach", without_affinity)


def _never_says_that_it_moved(patch: pytest.MonkeyPatch) -> None:
    start = Dispatcher._start

    def broken(self: Dispatcher, now: float, pick: Pick) -> Start:
        return start(self, now, pick)._replace(moved=False)

    patch.setattr(Dispatcher, "_start", broken)


def _the_youngest_of_a_starving_tier_first(patch: pytest.MonkeyPatch) -> None:
    starvation = Fleet._starvation

    def broken(self: Fleet, turn: Lane, free: list[Backend], now: float) -> Pick:
        pick = starvation(self, turn, free, now)
        heads = self._ranks[pick.lane.rank]
        late = [lane for lane in heads.in_order() if lane.head.arrived + heads.bound_s <= now]
        return replace(pick, lane=late[-1])

    patch.setattr(Fleet, "_starvation", broken)


def _one_slot_too_many(patch: pytest.MonkeyPatch) -> None:
    init = Backend.__init__

    def broken(self: Backend, spec: BackendSpec, *rest: Any) -> None:
        init(self, spec, *rest)
        self.slots += 1

    patch.setattr(Backend, "__init__", broken)


def _one_token_too_many(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Limit, "full", property(lambda self: self.used > self.held))


def _exclusive_runs_side_by_side(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Guard, "shut", property(lambda self: self.limit is not None and self.limit.full))


def _region_without_concurrency(patch: pytest.MonkeyPatch) -> None:
    init = Region.__init__

    def broken(self: Region, name: str, concurrency: int) -> None:
        init(self, name, concurrency + 1)

    patch.setattr(Region, "__init__", broken)


def _open_breaker_takes_work(patch: pytest.MonkeyPatch) -> None:
    refresh = Backend.refresh

    def broken(self: Backend) -> None:
        health, self.health = self.health, Health.CLOSED
        refresh(self)
        self.health = health

    patch.setattr(Backend, "refresh", broken)


def _last_in_first_out(patch: pytest.MonkeyPatch) -> None:
    next_head = Lane._next_head

    def broken(self: Lane) -> None:
        self._behind = deque(sorted(self._behind, key=lambda ticket: -ticket.seq))
        next_head(self)

    patch.setattr(Lane, "_next_head", broken)


def _affinity_without_end(patch: pytest.MonkeyPatch) -> None:
    take = Fleet.take

    def broken(self: Fleet, pick: Pick, number: int) -> None:
        take(self, pick, number)
        self.batch = 0

    patch.setattr(Fleet, "take", broken)


def _every_backend_has_a_batch_of_its_own(patch: pytest.MonkeyPatch) -> None:
    take = Fleet.take

    def broken(self: Fleet, pick: Pick, number: int) -> None:
        elsewhere = any(backend.used_at > pick.backend.used_at for backend in self.backends)
        take(self, pick, number)
        if pick.jumps and elsewhere:
            self.batch = 1

    patch.setattr(Fleet, "take", broken)


def _affinity_at_any_price(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fleet, "_endangers", lambda *_, **__: False)


def _nobody_ever_starves(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Fleet, turn: Lane, free: list[Backend], now: float) -> Pick | None:
        del turn
        return self._affinity(self._loaded(free), now) or self._next_worth_it(free, now)

    patch.setattr(Fleet, "_starvation", broken)


def _the_highest_tier_has_every_turn(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Turns) -> None:
        self.order = list(range(len(self._weights)))

    patch.setattr(Turns, "_sort", broken)


def _express_without_end(patch: pytest.MonkeyPatch) -> None:
    take = Fleet.take

    def broken(self: Fleet, pick: Pick, number: int) -> None:
        take(self, pick, number)
        self._express_run = 0

    patch.setattr(Fleet, "take", broken)


def _the_front_waits_for_affinity(patch: pytest.MonkeyPatch) -> None:
    pick = Fleet.pick

    def broken(self: Fleet, now: float) -> Pick | None:
        chosen = pick(self, now)
        if chosen is not None and chosen.reason is Reason.FRONT:
            free = sorted(self.free, key=lambda backend: backend.name)
            return self._affinity(self._loaded(free), now) or chosen
        return chosen

    patch.setattr(Fleet, "pick", broken)


def _retries_wait_behind_the_front(patch: pytest.MonkeyPatch) -> None:
    next_head = Lane._next_head

    def broken(self: Lane) -> None:
        next_head(self)
        if self.queue is not Queue.MAIN:
            self.entry = (Queue(Queue.FRONT - self.queue), self.head.seq, self)

    patch.setattr(Lane, "_next_head", broken)


def _the_lowest_tier_first(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Fleet, free: list[Backend], now: float) -> Pick | None:
        del now
        for heads in reversed(self._ranks):
            lane = heads.first()
            if lane is not None:
                return Pick(lane, place(lane.model, free), Reason.ORDER)
        return None

    patch.setattr(Fleet, "_next_worth_it", broken)


def _pinned_ones_move(patch: pytest.MonkeyPatch) -> None:
    entitled = Floor.entitled

    def broken(self: Floor, lane: Lane) -> tuple[Fleet, ...]:
        movable, lane.movable = lane.movable, True
        fleets = entitled(self, lane)
        lane.movable = movable
        return fleets

    patch.setattr(Floor, "entitled", broken)


def _a_retry_goes_back_to_where_it_failed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Floor, "_healthy_away", lambda *_: False)


def _other_regions_sleep_through_a_retry(patch: pytest.MonkeyPatch) -> None:
    stir = Dispatcher.stir

    def broken(self: Dispatcher, lane: Lane) -> None:
        if lane.queue is Queue.GLOBAL_RETRY:
            self.stir_regions([self._floor.regions[lane.region]])
        else:
            stir(self, lane)

    patch.setattr(Dispatcher, "stir", broken)


def _who_needs_no_load_always_goes(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Fleet, loaded: list[tuple[Backend, Lane]], *_: Any) -> Pick:
        backend, lane = min(loaded, key=lambda pair: (pair[1].rank, pair[1].head.seq))
        return Pick(lane, backend, Reason.ORDER)

    patch.setattr(Fleet, "_first_or", broken)


def _patience_without_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Patience, "_allowance", lambda *_: Allowance(until=1e9, weight=50.0))


def _patience_however_many_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Crowd, "weighs_at", lambda *_: 1e9)


def _patience_for_nothing(patch: pytest.MonkeyPatch) -> None:
    hope = Patience.hope

    def broken(self: Patience, region: Region, model: str, now: float, *crowd: Any) -> Hope:
        return hope(self, region, model, now, *crowd)._replace(soonest=now)

    patch.setattr(Patience, "hope", broken)


def _hopes_that_are_not_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Region, "hope_changed", lambda *_: None)


def _deadlines_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queues, "expired", lambda *_: iter(()))


def _deadlines_come_early(patch: pytest.MonkeyPatch) -> None:
    expired = Queues.expired
    patch.setattr(Queues, "expired", lambda self, now: expired(self, now + 0.5))


def _believes_that_a_lost_model_is_loaded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Backend, "lose", lambda *_: None)
    patch.setattr(Backend, "touch", lambda self, model: self.loaded.append(model))


MUTANTS = [
    Mutant("loses a request", Rule.NO_LOSS, _forgets_one_when_another_is_cancelled),
    Mutant("starts a request twice", Rule.NO_DUPLICATE, _starts_one_twice),
    Mutant("runs a model where it is not served", Rule.PLACE, _runs_what_a_backend_does_not_serve),
    Mutant("hides that a request moved", Rule.MOVED, _never_says_that_it_moved),
    Mutant("turns a starving tier around", Rule.STARVATION_ORDER, _the_youngest_of_a_starving_tier_first),
    Mutant("exceeds slots", Rule.SLOTS, _one_slot_too_many),
    Mutant("exceeds limits", Rule.LIMIT, _one_token_too_many),
    Mutant("ignores exclusive", Rule.EXCLUSIVE, _exclusive_runs_side_by_side),
    Mutant("ignores a region's concurrency", Rule.CONCURRENCY, _region_without_concurrency),
    Mutant("uses a backend with an open breaker", Rule.BREAKER, _open_breaker_takes_work),
    Mutant("serves the last first", Rule.FIFO, _last_in_first_out),
    Mutant("has no batch limit", Rule.BATCH_LIMIT, _affinity_without_end),
    Mutant("counts batches per backend", Rule.BATCH_LIMIT, _every_backend_has_a_batch_of_its_own),
    Mutant(
        "lets affinity delay others too long",
        Rule.AFFINITY_ENDANGERS,
        _affinity_at_any_price,
    ),
    Mutant("knows no starvation", Rule.STARVATION_FIRST, _nobody_ever_starves),
    Mutant("gives the highest tier every turn", Rule.STARVATION_BOUND, _the_highest_tier_has_every_turn),
    Mutant("lets retries and the front starve the rest", Rule.EXPRESS_LIMIT, _express_without_end),
    Mutant("lets affinity go before the paid front", Rule.EXPRESS_FIRST, _the_front_waits_for_affinity),
    Mutant("serves the front before retries", Rule.EXPRESS_ORDER, _retries_wait_behind_the_front),
    Mutant("serves the lowest tier first", Rule.ORDER, _the_lowest_tier_first),
    Mutant("lets batch follow batch", Rule.ORDER, _who_needs_no_load_always_goes),
    Mutant("moves pinned requests", Rule.PINNED, _pinned_ones_move),
    Mutant("retries where it failed", Rule.REGION, _a_retry_goes_back_to_where_it_failed),
    Mutant("lets idle regions sleep through a retry", Rule.AT_ONCE, _other_regions_sleep_through_a_retry),
    Mutant("waits for a loaded model for ever", Rule.PATIENCE, _patience_without_end),
    Mutant("waits for a loaded model with ever more", Rule.PATIENCE, _patience_however_many_wait),
    Mutant("waits for nothing", Rule.IDLE_SLOT, _patience_for_nothing),
    Mutant("waits for what is gone", Rule.IDLE_SLOT, _hopes_that_are_not_given_up),
    Mutant("forgets deadlines", Rule.EXPIRY, _deadlines_are_forgotten),
    Mutant("expires requests early", Rule.EXPIRY, _deadlines_come_early),
    Mutant("does not know what is loaded", Rule.LOAD, _believes_that_a_lost_model_is_loaded),
]
