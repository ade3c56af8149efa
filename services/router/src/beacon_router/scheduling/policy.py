"""Which request a free slot starts next. docs/scheduling.md explains the rules under the same numbers."""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from beacon_router.scheduling.decisions import Reason
from beacon_router.scheduling.placement import place, warm_wait_until
from beacon_router.scheduling.state.backend_set import BackendSet
from beacon_router.scheduling.state.backend_state import BackendState
from beacon_router.scheduling.state.request_queue import QueuedRequest, QueueKind, RequestQueue


class Candidate(NamedTuple):
    """The first request of a queue."""

    queue: RequestQueue
    queued: QueuedRequest


class Choice(NamedTuple):
    queue: RequestQueue
    queued: QueuedRequest
    backend: BackendState
    reason: Reason
    jumps: bool
    """It starts before the first in order because its model is loaded."""


def choose(view: BackendSet, now: float) -> Choice | None:
    """What a free slot of these backends starts now: the first rule that applies decides.

    Nothing is started. Without a choice, `view.wake_at` is when the answer changes without a new fact.
    """
    free = view.usable()
    if not free:
        return attach(Situation(view, now, free))  # a drained backend continues what is in progress there
    if view.warm_waits:
        view.end_warm_waits(now)
    situation = Situation(view, now, free)
    return next((choice for rule in RULES if (choice := rule(situation)) is not None), None)


class Situation:
    """What the rules of one choice have in common."""

    __slots__ = ("first", "firsts", "free", "now", "starving", "view")

    def __init__(self, view: BackendSet, now: float, free: list[BackendState]) -> None:
        self.view = view
        self.now = now
        self.free = free
        self.firsts: dict[int, Candidate] = {}
        """The first request of each tier, the highest tier first."""
        self.starving: list[int] = []
        """The tiers whose first request has waited past the bound."""
        for rank, tier in enumerate(view.policy.tiers):
            if (view.tiers[rank] or view.moved[rank]) and (first := _first_of_tier(view, rank)):
                self.firsts[rank] = first
                if first.queued.arrived + tier.starvation_bound_s <= now:
                    self.starving.append(rank)
        self.first = next(iter(self.firsts.values()), None)
        """The first in order: of the highest tier."""

    def start(self, candidate: Candidate, reason: Reason, *, jumps: bool = False) -> Choice:
        queue, queued = candidate
        return Choice(queue, queued, place(queue.model, self.free), reason, jumps)

    def first_warm(self) -> Candidate | None:
        """The first in order whose model is loaded on a free backend."""
        models = {model for backend in self.free for model in backend.loaded}
        if self.first is not None and self.first.queue.model in models:
            return self.first
        return _first(self.view, [queue for model in models for queue in self.view.by_model.get(model, ())])

    def first_jump(self) -> Candidate | None:
        """The same, if it may start before the first in order."""
        if self.view.batch >= self.view.policy.batch_limit:
            return None
        warm = self.first_warm()
        if warm is None or warm == self.first:
            return warm
        rank, first = warm.queue.rank, self.first
        if first is not None and first.queue.rank < rank and self.view.urgent[first.queue.rank]:
            return None
        lead_s = _lag(warm) - _lag(self.firsts[rank])
        return warm if lead_s <= self.view.policy.tiers[rank].starvation_bound_s else None

    def wake_at(self, moment: float) -> None:
        self.view.wake_at = min(self.view.wake_at, moment)


# The rules


def attach(situation: Situation) -> Choice | None:
    """0. Attach: a request whose run is in progress at a backend already takes a slot of that backend."""
    view = situation.view
    waiting = view.bypass[QueueKind.ATTACH]
    if not waiting:
        return None
    free = {each.name: each for each in view.backends if each.continues and each.short_of is None}
    first = _first(view, [queue for queue in waiting if queue.backend in free])
    if first is None:
        return None
    return Choice(first.queue, first.queued, free[first.queue.backend or ""], Reason.ATTACH, jumps=False)


def bypass(situation: Situation) -> Choice | None:
    """1. Global retry: a movable request that failed, the oldest first. For `retry_elsewhere_s` it does not
       return to a region where it failed while a healthy backend of another region serves its model.
    2. Region retry: a pinned request that failed here, the oldest first.
    3. Paid front: in the order of payment, whatever model is loaded."""
    view = situation.view
    if situation.starving and view.bypass_run >= view.policy.bypass_limit:
        return None
    for kind, reason in BYPASS:
        queues = [queue for queue in view.bypass[kind] if not _stays_away(situation, queue)]
        first = _first(view, queues) if queues else None
        if first is not None:
            return situation.start(first, reason)
    return None


def starvation(situation: Situation) -> Choice | None:
    """4. Starvation: while the first request of a tier has waited past the tier's bound, this tier and all
    higher ones take weighted turns. Before a turn that needs a model load, up to `batch_limit` requests for
    loaded models start, as far as rule 5 allows it."""
    if not situation.starving:
        return None
    ranks = [rank for rank in situation.firsts if rank <= situation.starving[-1]]
    choice = situation.start(situation.firsts[situation.view.stride.choose(ranks)], Reason.STARVATION)
    if choice.queue.model not in choice.backend.loaded:
        warm = situation.first_jump()
        if warm is not None:
            return situation.start(warm, Reason.AFFINITY, jumps=True)
    return choice


def affinity(situation: Situation) -> Choice | None:
    """5. Affinity: a request whose model is loaded on a free backend starts before the first in order, at
    most `batch_limit` times between two starts in order; not while a request of a higher tier with more than
    the median weight waits, and not while the virtual time of its user is ahead of the first user's in the
    tier by more than the tier's bound."""
    warm = situation.first_jump()
    if warm is None:
        return None
    jumps = warm != situation.first
    return situation.start(warm, Reason.AFFINITY if jumps else Reason.ORDER, jumps=jumps)


def order(situation: Situation) -> Choice | None:
    """6. Order: the highest tier, in it the user with the least virtual time, of this user the oldest
    request. While it waits for a warm backend, a request whose model is loaded starts, else the next in
    order that does not wait."""
    first = situation.first
    if first is None:
        return None
    warm = situation.first_warm()
    if warm == first or not _waits_for_warm(situation, first, idle=warm is None):
        return situation.start(first, Reason.ORDER)
    if warm is not None:
        return situation.start(warm, Reason.ORDER, jumps=True)
    return _next_in_order(situation)


RULES: Final[tuple[Callable[[Situation], Choice | None], ...]] = (attach, bypass, starvation, affinity, order)
BYPASS: Final = (
    (QueueKind.GLOBAL_RETRY, Reason.GLOBAL_RETRY),
    (QueueKind.REGION_RETRY, Reason.REGION_RETRY),
    (QueueKind.FRONT, Reason.FRONT),
)


# What the rules use


def _stays_away(situation: Situation, queue: RequestQueue) -> bool:
    """A global retry does not return to this region yet."""
    view = situation.view
    head = queue.head() if queue.elsewhere and view.region.name in queue.avoided else None
    if head is None:
        return False
    returns_at = head.arrived + view.policy.retry_elsewhere_s
    if situation.now < returns_at:
        situation.wake_at(returns_at)
    return situation.now < returns_at


def _waits_for_warm(situation: Situation, candidate: Candidate, *, idle: bool) -> bool:
    """Next to an idle slot, a wait that was decided is kept until it ends or what it depends on changes."""
    view, model = situation.view, candidate.queue.model
    if idle and model in view.warm_waits:
        return True
    until = warm_wait_until(view, model, candidate.queue.rank, situation.now, idle=idle)
    if idle and until is not None:
        view.warm_waits[model] = until
        del view.undecided[model]
    return until is not None


def _next_in_order(situation: Situation) -> Choice | None:
    """The first that does not wait for a warm backend, next to an idle slot."""
    view = situation.view
    firsts = (_first(view, view.by_model[model]) for model in view.undecided)
    for candidate in sorted((first for first in firsts if first is not None), key=_order):
        if not _waits_for_warm(situation, candidate, idle=True):
            return situation.start(candidate, Reason.ORDER)
    situation.wake_at(min(view.warm_waits.values()))
    for rank, first in situation.firsts.items():
        situation.wake_at(first.queued.arrived + view.policy.tiers[rank].starvation_bound_s)
    return None


def _first_of_tier(view: BackendSet, rank: int) -> Candidate | None:
    """The first request of the tier is known without a search, unless this set may not start it."""
    tier, moved = view.tiers[rank], view.moved[rank]
    if tier and not moved:
        queue, queued = view.shares[rank].first()
        if queue in tier and not view.region.blocked(queue.model):
            return Candidate(queue, queued)
    return _first(view, (*tier, *moved))


def _first(view: BackendSet, queues: Collection[RequestQueue]) -> Candidate | None:
    """The first in order of those that may start a run."""
    queues = view.open(queues)
    highest = min((queue.rank for queue in queues), default=0)
    firsts = [
        Candidate(queue, head)
        for queue in queues
        if queue.rank == highest and (head := queue.head()) is not None
    ]
    return min(firsts, key=_order) if len(firsts) > 1 else next(iter(firsts), None)


def _order(candidate: Candidate) -> tuple[int, float, int, int]:
    """By tier, virtual time of the user, the oldest request of the user in the tier, arrival."""
    queue, queued = candidate
    oldest = queue.shares.places[queued.request.user][1] if queue.shares.by_user else 0
    return (queue.rank, _lag(candidate), oldest, queued.seq)


def _lag(candidate: Candidate) -> float:
    """Virtual times of users are compared by their distance to the floor of their region."""
    shares = candidate.queue.shares
    return shares.times[candidate.queued.request.user] - shares.floor if shares.by_user else 0.0
