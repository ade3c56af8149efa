"""Which backend set is served next, and what starts and ends of runs change: live and in forecasts."""

from collections.abc import Sequence
from math import inf
from operator import attrgetter

from beacon_router.scheduling.decisions import Reason
from beacon_router.scheduling.fair_share import FairShares
from beacon_router.scheduling.policy import Choice, choose
from beacon_router.scheduling.state.backend_set import BackendSet
from beacon_router.scheduling.state.backend_state import RunningRequest
from beacon_router.scheduling.state.request_queue import QueueKind

_served_at = attrgetter("served_at")


def choose_among(sets: Sequence[BackendSet], now: float) -> Choice | None:
    """The choice of the backend set that has gone longest without a dispatch, of those that have one."""
    for view in sets:
        view.wake_at = inf
    for view in sorted([each for each in sets if each.queues and each.active], key=_served_at):
        choice = choose(view, now)
        if choice is not None:
            return choice
    return None


def start(now: float, choice: Choice, number: int, shares: FairShares) -> RunningRequest:
    """The request leaves its queue and occupies a slot and tokens; its user is charged."""
    queue, backend = choice.queue, choice.backend
    backend_set, region = backend.backend_set, backend.region
    record(backend_set, choice)
    backend_set.served_at = backend.used_at = number
    run = RunningRequest(choice.queued.request, backend, now, queue)
    run.user = shares.user_of(run.request)
    shares.started(run.user, run.charged_s / run.request.weight)
    queue.remove(choice.queued)
    backend.occupy(run)
    run.limits += region.model_limits.get(queue.model, ())
    for limit in run.limits:
        limit.used += 1
        limit.served[region.name] = number
    return run


def end(now: float, run: RunningRequest) -> None:
    """Release the slot and the tokens."""
    run.backend.vacate(now, run)
    for limit in run.limits:
        limit.used -= 1


def record(view: BackendSet, choice: Choice) -> None:
    """The choice is carried out: count what the limits of the rules are about."""
    if choice.queue.kind is QueueKind.ATTACH:
        return
    if choice.queue.kind is not QueueKind.MAIN:
        view.bypass_run += 1
        return
    view.bypass_run = 0
    view.batch = view.batch + 1 if choice.jumps else 0
    if choice.reason is Reason.STARVATION:
        view.stride.take(choice.queue.rank)
