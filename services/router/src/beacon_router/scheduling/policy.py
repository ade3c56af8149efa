"""Which request a free slot starts next. docs/scheduling.md explains the rules under the same numbers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from beacon_router.scheduling.backend_set import BackendSet
from beacon_router.scheduling.backend_state import BackendState
from beacon_router.scheduling.decisions import Reason
from beacon_router.scheduling.placement import place, warm_wait_until
from beacon_router.scheduling.request_queue import QueuedRequest, QueueKind, RequestQueue


class Candidate(NamedTuple):
    """The first request of a queue. Candidates sort by tier, virtual time of the user, the oldest request of
    the user in the tier, arrival."""

    rank: int
    lag: float
    oldest: int
    seq: int
    queue: RequestQueue
    queued: QueuedRequest


@dataclass(frozen=True, slots=True)
class Choice:
    candidate: Candidate
    backend: BackendState
    reason: Reason
    jumps: bool = False
    """It starts before others only because its model is loaded."""


def choose(view: BackendSet, now: float) -> Choice | None:
    """What a free slot of these backends starts now: the first rule that applies decides.

    Nothing is started. `view.wake_at` is set to when the answer changes without a new fact.
    """
    view.wake_at = inf
    if not view.queues or not (free := view.usable()):
        return None
    situation = Situation(view, now, free)
    for rule in RULES:
        choice = rule(situation)
        if choice is not None:
            return choice
    return None


def record(view: BackendSet, choice: Choice) -> None:
    """The choice is carried out: count what the limits of the rules are about."""
    candidate = choice.candidate
    if candidate.queue.kind is not QueueKind.MAIN:
        view.bypass_run += 1
        return
    view.bypass_run = 0
    view.batch = view.batch + 1 if choice.jumps else 0
    if choice.reason is Reason.STARVATION:
        view.stride.take(candidate.rank)


class Situation:
    """What the rules of one choice have in common."""

    __slots__ = ("firsts", "free", "now", "starving", "view")

    def __init__(self, view: BackendSet, now: float, free: list[BackendState]) -> None:
        self.view = view
        self.now = now
        self.free = free
        self.firsts = {
            rank: first
            for rank, queues in enumerate(view.tiers)
            if (queues or view.moved[rank]) and (first := _first_of_tier(view, rank)) is not None
        }
        """The first request of each tier."""
        self.starving = [
            rank
            for rank, first in self.firsts.items()
            if first.queued.arrived + view.policy.tiers[rank].starvation_bound_s <= now
        ]
        """The tiers whose first request has waited past the bound."""

    @property
    def bypass_allowed(self) -> bool:
        """While a tier starves, at most `bypass_limit` starts in a row are retries or paid."""
        return not self.starving or self.view.bypass_run < self.view.policy.bypass_limit

    def start(self, candidate: Candidate, reason: Reason, *, jumps: bool = False) -> Choice:
        return Choice(candidate, place(candidate.queue.model, self.free), reason, jumps)

    def first_in_order(self) -> Candidate | None:
        """By tier, then virtual time of the user, then arrival."""
        return min(self.firsts.values(), default=None)

    def first_warm(self) -> Candidate | None:
        """The first in order whose model is loaded on a free backend."""
        by_model = self.view.by_model
        models = {model for backend in self.free for model in backend.loaded}
        warm = (queue for model in models if model in by_model for queue in by_model[model])
        return _first(self.view.open(warm))

    def wake_at(self, moment: float) -> None:
        self.view.wake_at = min(self.view.wake_at, moment)


# The rules


def global_retry(situation: Situation) -> Choice | None:
    """1. Global retry: a movable request that failed, the oldest first. For `retry_elsewhere_s` it does not
    return to a region where it failed while a healthy backend of another region serves its model."""
    view = situation.view
    if not view.bypass[QueueKind.GLOBAL_RETRY] or not situation.bypass_allowed:
        return None
    queues = []
    for queue in view.open(view.bypass[QueueKind.GLOBAL_RETRY]):
        head = queue.head()
        if queue.elsewhere and view.region.name in queue.avoided and head is not None:
            returns_at = head.arrived + view.policy.retry_elsewhere_s
            if situation.now < returns_at:
                situation.wake_at(returns_at)
                continue
        queues.append(queue)
    first = _first(queues)
    return None if first is None else situation.start(first, Reason.GLOBAL_RETRY)


def region_retry(situation: Situation) -> Choice | None:
    """2. Region retry: a pinned request that failed here, the oldest first."""
    return _bypass(situation, QueueKind.REGION_RETRY, Reason.REGION_RETRY)


def paid_front(situation: Situation) -> Choice | None:
    """3. Paid front: in the order of payment, whatever model is loaded."""
    return _bypass(situation, QueueKind.FRONT, Reason.FRONT)


def starvation(situation: Situation) -> Choice | None:
    """4. Starvation: while the first request of a tier has waited past the tier's bound, this tier and all
    higher ones take weighted turns. Before a turn that needs a model load, up to `batch_limit` requests for
    loaded models start."""
    if not situation.starving:
        return None
    view = situation.view
    ranks = [rank for rank in situation.firsts if rank <= situation.starving[-1]]
    turn = situation.firsts[view.stride.choose(ranks)]
    choice = situation.start(turn, Reason.STARVATION)
    if turn.queue.model not in choice.backend.loaded and view.batch < view.policy.batch_limit:
        warm = situation.first_warm()
        if warm is not None:
            return situation.start(warm, Reason.AFFINITY, jumps=True)
    return choice


def affinity(situation: Situation) -> Choice | None:
    """5. Affinity: a request whose model is loaded on a free backend starts before the first in order, at
    most `batch_limit` times between two starts in order."""
    if situation.view.batch >= situation.view.policy.batch_limit:
        return None
    warm = situation.first_warm()
    if warm is None:
        return None
    jumps = warm != situation.first_in_order()
    return situation.start(warm, Reason.AFFINITY if jumps else Reason.ORDER, jumps=jumps)


def order(situation: Situation) -> Choice | None:
    """6. Order: the highest tier, in it the user with the least virtual time, of this user the oldest
    request. While it waits for a warm backend, a request whose model is loaded starts, else the next in
    order that does not wait."""
    first = situation.first_in_order()
    if first is None:
        return None
    warm = situation.first_warm()
    if not _waits_for_warm(situation, first, idle=warm is None):
        return situation.start(first, Reason.ORDER)
    if warm is not None:
        return situation.start(warm, Reason.ORDER)
    for candidate in _others_in_order(situation.view, first):
        if not _waits_for_warm(situation, candidate, idle=True):
            return situation.start(candidate, Reason.ORDER)
    return None


RULES: Final[tuple[Callable[[Situation], Choice | None], ...]] = (
    global_retry,
    region_retry,
    paid_front,
    starvation,
    affinity,
    order,
)


# What the rules use


def _bypass(situation: Situation, kind: QueueKind, reason: Reason) -> Choice | None:
    queues = situation.view.bypass[kind]
    if not queues or not situation.bypass_allowed:
        return None
    first = _first(situation.view.open(queues))
    return None if first is None else situation.start(first, reason)


def _first_of_tier(view: BackendSet, rank: int) -> Candidate | None:
    """The first request of the tier is known without a search, unless this set may not start it."""
    tier, moved = view.tiers[rank], view.moved[rank]
    if tier and not moved:
        queue, queued = view.shares[rank].first()
        if queue in tier and not view.region.closed(queue.model):
            return _candidate(queue, queued)
    return _first(view.open((*tier, *moved)))


def _first(queues: Iterable[RequestQueue]) -> Candidate | None:
    best: Candidate | None = None
    for queue in queues:
        if best is None or queue.rank <= best.rank:
            head = queue.head()
            if head is not None:
                candidate = _candidate(queue, head)
                best = candidate if best is None else min(best, candidate)
    return best


def _candidate(queue: RequestQueue, head: QueuedRequest) -> Candidate:
    """Virtual times are compared by their distance to the region's floor."""
    shares = queue.shares
    if not shares.by_user:
        return Candidate(queue.rank, 0.0, 0, head.seq, queue, head)
    time, oldest, _, _ = shares.places[head.request.user]
    return Candidate(queue.rank, time - shares.floor, oldest, head.seq, queue, head)


def _waits_for_warm(situation: Situation, candidate: Candidate, *, idle: bool) -> bool:
    backend = place(candidate.queue.model, situation.free)
    if candidate.queue.model in backend.loaded:
        return False
    until = warm_wait_until(situation.view, candidate.queued, backend, situation.now, idle=idle)
    if until is not None:
        situation.wake_at(until)
    return until is not None


def _others_in_order(view: BackendSet, first: Candidate) -> Iterable[Candidate]:
    """The first of each other model, in order."""
    others = (
        _first(view.open(queues))
        for model, queues in view.by_model.items()
        if queues and model != first.queue.model
    )
    return sorted(other for other in others if other is not None)
