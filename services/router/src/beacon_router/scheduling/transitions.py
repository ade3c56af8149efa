"""Starts and ends of runs on the state, for the live scheduler and for forecasts."""

from beacon_router.scheduling.backend_state import RunningRequest
from beacon_router.scheduling.fair_share import FairShares
from beacon_router.scheduling.policy import Choice, record
from beacon_router.scheduling.request_queue import QueueKind


def start(now: float, choice: Choice, number: int, shares: FairShares) -> RunningRequest:
    """The request leaves its queue and occupies a slot and tokens; its user is charged."""
    candidate, backend = choice.candidate, choice.backend
    backend_set, region = backend.backend_set, backend.region
    record(backend_set, choice)
    backend_set.served_at = backend.used_at = number
    run = RunningRequest(candidate.queued.request, backend, now, candidate.queue.region)
    in_turn = candidate.queue.kind is QueueKind.MAIN and not choice.jumps
    shares.started(shares.user_of(run.request), run.charged_s / run.request.weight, in_turn=in_turn)
    candidate.queue.remove(candidate.queued)
    backend.occupy(run)
    run.limits += region.model_limits.get(candidate.queue.model, ())
    for limit in run.limits:
        limit.used += 1
        limit.served[region.name] = number
    return run


def end(run: RunningRequest) -> None:
    """Release the slot and the tokens."""
    run.backend.vacate(run)
    for limit in run.limits:
        limit.used -= 1
