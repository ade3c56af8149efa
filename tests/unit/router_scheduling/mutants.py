"""Deliberately broken schedulers: one small fault each, which the invariants or the reference must notice."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from beacon_router.scheduling import BackendSpec, Topology, placement, policy, region_limit, transitions
from beacon_router.scheduling.dispatch import Dispatcher
from beacon_router.scheduling.fair_share import FairShares
from beacon_router.scheduling.policy import Candidate, Choice, Situation
from beacon_router.scheduling.state.backend_set import BackendSet
from beacon_router.scheduling.state.backend_state import BackendState, RegionState
from beacon_router.scheduling.state.limits import Limit
from beacon_router.scheduling.state.request_queue import QueuedRequest, QueueKind, RequestQueue
from beacon_router.scheduling.stride import StrideScheduler

Patch = Callable[[pytest.MonkeyPatch], None]
Rule = Callable[[Situation], Choice | None]


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    break_it: Patch


def _without(rule: Rule) -> Patch:
    """The rule never applies."""
    rules = tuple(each for each in policy.RULES if each is not rule)
    return lambda patch: patch.setattr(policy, "RULES", rules)


def _bypass_order(*places: int) -> Patch:
    """Rules 1 to 3 in another order, or fewer of them."""
    return _setattr(policy, "BYPASS", tuple(policy.BYPASS[place] for place in places))


def _with(rule: Rule, broken: Rule) -> Patch:
    rules = tuple(broken if each is rule else each for each in policy.RULES)
    return lambda patch: patch.setattr(policy, "RULES", rules)


def _setattr(owner: Any, name: str, value: Any) -> Patch:
    return lambda patch: patch.setattr(owner, name, value)


def _returns_at_once(situation: Situation) -> Choice | None:
    for queue in situation.view.bypass[QueueKind.GLOBAL_RETRY]:
        queue.elsewhere = False
    return policy.bypass(situation)


def _starvation_of_starving_tiers_only(situation: Situation) -> Choice | None:
    situation.firsts = {
        rank: first for rank, first in situation.firsts.items() if rank in situation.starving
    } or situation.firsts
    return policy.starvation(situation)


def _endless_batch(situation: Situation) -> Choice | None:
    choice = policy.affinity(situation)
    return None if choice is None else choice._replace(jumps=False)


def _turns_only(situation: Situation) -> Choice | None:
    situation.view.batch = situation.view.policy.batch_limit
    return policy.starvation(situation)


def _uncounted_before_turns(situation: Situation) -> Choice | None:
    choice = policy.starvation(situation)
    return None if choice is None else choice._replace(jumps=False)


def _uncounted_overtakes(situation: Situation) -> Choice | None:
    choice = policy.order(situation)
    return None if choice is None else choice._replace(jumps=False)


def _any_lead(self: Situation) -> Candidate | None:
    return self.first_warm() if self.view.batch < self.view.policy.batch_limit else None


def _before_urgent_tiers(self: Situation) -> Candidate | None:
    self.view.urgent = [False] * len(self.view.urgent)
    return _first_jump(self)


def _never_in_urgent_tiers(self: Situation) -> Candidate | None:
    jump = _first_jump(self)
    urgent = self.first is not None and self.view.urgent[self.first.queue.rank]
    return None if urgent and jump != self.first else jump


def _no_charge(self: FairShares, user: str, seconds: float) -> None:
    _started(self, user, 0.0 * seconds)


def _no_correction(self: FairShares, user: str, seconds: float) -> None:
    _ended(self, user, 0.0 * seconds)


def _credit_for_idle_users(self: FairShares, user: str) -> None:
    self.times.setdefault(user, 0.0)


def _last_of_a_user(self: RequestQueue) -> QueuedRequest | None:
    head = _head(self)
    fifo = None if head is None else self._fifo(self.shares.user_of(head.request))
    return list(fifo)[-1] if fifo else None


def _counts_a_bypass_never(view: Any, choice: Choice) -> None:
    _record(view, choice)
    view.bypass_run = 0


def _never_moved(self: Dispatcher, now: float, choice: Choice) -> Any:
    return _start(self, now, choice)._replace(moved=False)


def _without_concurrency(self: Topology, backend: BackendSpec, model: str | None = None) -> Any:
    return tuple(name for name in _limits_of(self, backend, model) if name != region_limit(backend.region))


_limits_of = Topology.limits_of
_started, _ended, _head = FairShares.started, FairShares.ended, RequestQueue.head
_first_jump = Situation.first_jump
_record, _start = transitions.record, Dispatcher._start

MUTANTS = (
    Mutant("1 a retry returns to its region at once", _with(policy.bypass, _returns_at_once)),
    Mutant("1 no global retry", _bypass_order(1, 2)),
    Mutant("2 no region retry", _bypass_order(0, 2)),
    Mutant("2 paid front before region retry", _bypass_order(0, 2, 1)),
    Mutant("3 no paid front", _bypass_order(0, 1)),
    Mutant("4 no starvation rule", _without(policy.starvation)),
    Mutant("4 higher tiers take no turns", _with(policy.starvation, _starvation_of_starving_tiers_only)),
    Mutant("4 no loaded models before a turn", _with(policy.starvation, _turns_only)),
    Mutant(
        "4 loaded models before a turn without a limit", _with(policy.starvation, _uncounted_before_turns)
    ),
    Mutant("4 turns are not taken", _setattr(StrideScheduler, "take", lambda self, rank: None)),
    Mutant("4 bypass without a limit", _setattr(transitions, "record", _counts_a_bypass_never)),
    Mutant("5 no affinity", _without(policy.affinity)),
    Mutant("5 a batch without a limit", _with(policy.affinity, _endless_batch)),
    Mutant("5 a lead without a limit", _setattr(Situation, "first_jump", _any_lead)),
    Mutant("5 jumps before urgent tiers", _setattr(Situation, "first_jump", _before_urgent_tiers)),
    Mutant("5 no jumps inside urgent tiers", _setattr(Situation, "first_jump", _never_in_urgent_tiers)),
    Mutant("6 overtakes are not counted", _with(policy.order, _uncounted_overtakes)),
    Mutant("6 users are not charged", _setattr(FairShares, "started", _no_charge)),
    Mutant("6 charges are not corrected", _setattr(FairShares, "ended", _no_correction)),
    Mutant("6 idle users keep their credit", _setattr(FairShares, "_activate", _credit_for_idle_users)),
    Mutant("6 a user's last request first", _setattr(RequestQueue, "head", _last_of_a_user)),
    Mutant("6 no warm wait", _setattr(policy, "warm_wait_until", lambda *_, **__: None)),
    Mutant("6 urgent tiers wait as long as others", _setattr(placement, "_URGENT_LOADS", 50.0)),
    Mutant("6 a warm wait of any length", _setattr(placement, "_IDLE_LOADS", 50.0)),
    Mutant("6 decided waits are kept", _setattr(BackendSet, "recheck_warm_wait", lambda self, model: None)),
    Mutant("6 waits never end", _setattr(BackendSet, "end_warm_waits", lambda self, now: None)),
    Mutant("a model on any free backend", _setattr(policy, "place", lambda model, free: free[-1])),
    Mutant("any model is evicted", _setattr(RegionState, "demand_for", lambda self, model: 0.0)),
    Mutant(
        "one slot too many",
        _setattr(BackendState, "slots", property(lambda self: self.spec.slots + 1, lambda self, value: None)),
    ),
    Mutant("one token too many", _setattr(BackendState, "short_of", property(lambda self: None))),
    Mutant("limits of models are not kept", _setattr(Limit, "full", property(lambda self: False))),
    Mutant(
        "exclusive models in parallel",
        _setattr(Limit, "full", property(lambda self: self.used >= self.held + (self.cap == 1))),
    ),
    Mutant("no concurrency of a region", _setattr(Topology, "limits_of", _without_concurrency)),
    Mutant("moved is never stated", _setattr(Dispatcher, "_start", _never_moved)),
)
