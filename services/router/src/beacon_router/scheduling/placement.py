"""On which free backend a model runs, and when to wait for a backend that has it loaded already."""

from math import inf
from typing import Final

from beacon_router.scheduling.backend_set import BackendSet
from beacon_router.scheduling.backend_state import BackendState
from beacon_router.scheduling.decisions import Health
from beacon_router.scheduling.request_queue import QueuedRequest

_IDLE_LOADS: Final = 2.0
"""Next to an idle slot a request waits for a warm backend while that takes less than so many loads."""


def place(model: str, free: list[BackendState]) -> BackendState:
    """A backend with the model loaded, else with room for a model, else the one that is idle for longest."""
    if len(free) == 1:
        return free[0]
    return min(free, key=lambda backend: _cost(model, backend))


def _cost(model: str, backend: BackendState) -> int:
    return 0 if model in backend.loaded else 1 + (len(backend.loaded) >= backend.spec.loaded_models)


def warm_wait_until(
    view: BackendSet, queued: QueuedRequest, backend: BackendState, now: float, *, idle: bool
) -> float | None:
    """Until when a request waits for a busy backend that has its model loaded, instead of loading the model
    on `backend`; None: it does not wait.

    Where the free slot would be idle meanwhile, it waits if all requests for the model are expected to start
    on the warm backends within two loads. Where the free slot has other work, waiting costs no GPU time: then
    it waits for up to `patience` loads. Tiers with more than the median weight wait less by that factor, but
    for at least one load. It waits no longer than that after the expected moment, and not past its starvation
    bound.
    """
    policy, model = view.policy, queued.request.model
    warm = [holder for holder in view.region.holders.get(model, ()) if holder.health is Health.CLOSED]
    free_at = min((holder.free_at or inf for holder in warm), default=inf)
    if free_at == inf or policy.patience == 0.0:
        return None
    load_s = backend.loads_s.of(model)
    tier = policy.tiers[queued.request.rank]
    loads = (min(_IDLE_LOADS, policy.patience) if idle else policy.patience) / view.urgency[
        queued.request.rank
    ]
    limit_s = load_s * max(1.0, loads)
    backlog = sum(queue.size for queue in view.by_model[model]) - 1 if idle else 0
    last_at = free_at + backlog * backend.runs_s.of(model) / len(warm)
    until = min(free_at + limit_s, queued.arrived + tier.starvation_bound_s)
    return until if last_at - limit_s < now < until else None
