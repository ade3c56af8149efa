"""Starts and ends of runs on the state, for the live scheduler and for forecasts."""

from beacon_router.scheduling.backend_state import RunningRequest
from beacon_router.scheduling.fair_share import FairShares
from beacon_router.scheduling.policy import Choice, record


def start(now: float, choice: Choice, number: int, shares: FairShares) -> RunningRequest:
    """The request leaves its queue and occupies a slot and tokens; its user is charged."""
    queue, backend = choice.queue, choice.backend
    backend_set, region = backend.backend_set, backend.region
    record(backend_set, choice)
    backend_set.served_at = backend.used_at = number
    run = RunningRequest(choice.queued.request, backend, now, queue)
    shares.started(shares.user_of(run.request), run.charged_s / run.request.weight)
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
