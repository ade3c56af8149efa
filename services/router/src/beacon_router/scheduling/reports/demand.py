"""How much of the shared caps there is work for."""

from collections.abc import Iterable

from beacon_router.scheduling.decisions import Health
from beacon_router.scheduling.state.backend_state import BackendState, RegionState
from beacon_router.scheduling.state.limits import Limit
from beacon_router.scheduling.state.queues import RequestQueues
from beacon_router.scheduling.state.request_queue import QueueKind, RequestQueue
from beacon_router.scheduling.state.topology import LimitName


def demand(limits: Iterable[Limit], queues: RequestQueues) -> dict[LimitName, int]:
    """For each limit: tokens in use, and one more for each free slot that work waits for.

    Tokens of models are requested first, then slots for what these tokens let start, then tokens of groups
    and regions for the slots: no slot is idle here for a model that runs at another router.
    """
    if not queues.waiting:
        return {limit.name: min(limit.cap, limit.used) for limit in limits}
    return {limit.name: min(limit.cap, limit.used + _startable(limit, queues)) for limit in limits}


def _startable(limit: Limit, queues: RequestQueues) -> int:
    """Waiting requests that could start under the limit if it had tokens enough."""
    if limit.model is not None:
        # Also while all slots are busy: a request without its token is passed over when one becomes free.
        alive = sum(
            _to_continue(backend) if backend.health is Health.OPEN else backend.slots
            for backend in limit.backends
        )
        return min(max(0, alive - limit.used), queues.waiting_for(limit.model))
    slots = 0
    for backend in limit.backends:
        if backend in backend.backend_set.free:
            tokens = backend.slot_tokens
            if tokens is None or tokens is limit:
                slots += max(0, backend.slots - len(backend.runs))
            else:
                slots += max(0, tokens.held - len(backend.runs))
        else:
            slots += _to_continue(backend)
    sets = {backend.backend_set for backend in limit.backends}
    return min(slots, sum(_open(queue, each.region) for each in sets for queue in each.queues))


def _to_continue(backend: BackendState) -> int:
    """Runs in progress there that may take a slot although nothing new may start there."""
    if not backend.continues:
        return 0
    waiting = (
        queue for queue in backend.backend_set.bypass[QueueKind.ATTACH] if queue.backend == backend.name
    )
    return min(backend.spec.slots - len(backend.runs), sum(queue.size for queue in waiting))


def _open(queue: RequestQueue, region: RegionState) -> int:
    """Requests of the queue that the limits of their model let start in the region."""
    limits = region.model_limits.get(queue.model, ())
    return min((queue.size, *(max(0, limit.held - limit.used) for limit in limits)))
