"""On which free backend a model runs, and how long its requests wait for a backend that has it loaded."""

from math import inf
from typing import Final

from beacon_router.scheduling.decisions import Health
from beacon_router.scheduling.state.backend_set import BackendSet
from beacon_router.scheduling.state.backend_state import BackendState

_IDLE_LOADS: Final = 2.5
"""Next to an idle slot a request waits for a warm backend while that takes less than so many loads."""
_URGENT_LOADS: Final = 1.0
"""The most for tiers with more than the median weight."""


def place(model: str, free: list[BackendState]) -> BackendState:
    """A backend with the model loaded, else with room for a model, else the one that evicts the model with
    the fewest recent requests, divided by the backends that have it loaded. Of equal ones the one that has
    been idle for longest."""

    def cost(backend: BackendState) -> tuple[int, float]:
        if model in backend.loaded:
            return 0, 0.0
        if len(backend.loaded) < backend.spec.loaded_models:
            return 1, 0.0
        return 2, backend.region.demand_for(backend.loaded[0])

    return min(free, key=cost) if len(free) > 1 else free[0]


def warm_wait_until(view: BackendSet, model: str, rank: int, now: float, *, idle: bool) -> float | None:
    """Until when the first request for a model, of this rank, waits for a busy backend that has the model
    loaded, instead of loading it on a free one; None: it does not wait.

    Where the free slot would be idle meanwhile, it waits if all requests for the model are expected to start
    on the warm backends within two and a half loads. Where the free slot has other work, waiting costs no GPU
    time: then it waits for up to `warm_wait_max_loads`. Tiers with more than the median weight wait for at
    most one load. It waits no longer than that after the expected moment.
    """
    max_loads = view.policy.warm_wait_max_loads
    warm = [holder for holder in view.region.holders.get(model, ()) if holder.health is Health.CLOSED]
    free_at = min((holder.free_at or inf for holder in warm), default=inf)
    if free_at == inf or max_loads == 0.0:
        return None
    loads = min(max_loads, _IDLE_LOADS if idle else inf, _URGENT_LOADS if view.urgent[rank] else inf)
    limit_s = view.durations.loads.of(model) * loads
    backlog = sum(queue.size for queue in view.by_model[model]) - 1 if idle else 0
    last_at = free_at + backlog * view.durations.runs.of(model) / len(warm)
    until = free_at + limit_s
    return until if last_at - limit_s < now < until else None
