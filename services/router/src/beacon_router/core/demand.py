"""How much of a shared cap there is work for."""

from beacon_router.core.fleet import Fleet
from beacon_router.core.limits import Limit
from beacon_router.core.queues import Queues


def demand(limit: Limit, queues: Queues) -> int:
    """Tokens in use, and one more for each free slot that work waits for. At least one if any could start."""
    slots = sum(backend.slots - len(backend.runs) for backend in limit.backends if backend.has_slot)
    if limit.model is not None:
        waiting = queues.waiting_for(limit.model)
    else:
        fleets: dict[Fleet, None] = {backend.fleet: None for backend in limit.backends}
        waiting = sum(fleet.waiting for fleet in fleets)
    return min(limit.cap, limit.used + min(waiting, slots))
