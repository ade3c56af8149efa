"""How much of a shared cap there is work for."""

from beacon_router.scheduling.backend_set import BackendSet
from beacon_router.scheduling.backend_state import BackendState
from beacon_router.scheduling.limits import Limit
from beacon_router.scheduling.queues import RequestQueues


def demand(limit: Limit, queues: RequestQueues) -> int:
    """Tokens in use, and one more for each free slot that work waits for. At least one if any could start."""
    slots = sum(_usable(backend, limit) for backend in limit.backends if backend.has_slot)
    if limit.model is not None:
        waiting = queues.waiting_for(limit.model)
    else:
        sets: dict[BackendSet, None] = {backend.backend_set: None for backend in limit.backends}
        waiting = sum(each.waiting for each in sets)
    return min(limit.cap, limit.used + min(waiting, slots))


def _usable(backend: BackendState, limit: Limit) -> int:
    """Free slots there; of a backend that routers share only those that this one has a token for.

    Slots are asked for first, so that no group's tokens lie idle here while others have the slots.
    """
    tokens = backend.slot_tokens
    slots = backend.slots if tokens is None or tokens is limit else tokens.held
    return max(0, slots - len(backend.runs))
