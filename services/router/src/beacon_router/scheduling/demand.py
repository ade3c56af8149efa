"""How much of the shared caps there is work for."""

from collections.abc import Iterable

from beacon_router.scheduling.limits import Limit
from beacon_router.scheduling.queues import RequestQueues
from beacon_router.scheduling.topology import LimitName


def demand(limits: Iterable[Limit], queues: RequestQueues) -> dict[LimitName, int]:
    """For each limit: tokens in use, and one more for each free slot that work waits for.

    Of a backend that routers share, only the slots that this router has a token for count as free. Slots are
    requested first, so that no group's tokens are idle here while other routers have the slots.
    """
    if not queues.waiting:
        return {limit.name: min(limit.cap, limit.used) for limit in limits}
    return {limit.name: min(limit.cap, limit.used + _startable(limit, queues)) for limit in limits}


def _startable(limit: Limit, queues: RequestQueues) -> int:
    """Waiting requests that could start under the limit if it had tokens enough."""
    slots = 0
    for backend in limit.backends:
        if backend in backend.backend_set.free:
            tokens = backend.slot_tokens
            usable = backend.slots if tokens is None or tokens is limit else tokens.held
            slots += max(0, usable - len(backend.runs))
    if limit.model is not None:
        return min(slots, queues.waiting_for(limit.model))
    sets = {backend.backend_set for backend in limit.backends}
    return min(slots, sum(queue.size for each in sets for queue in each.queues))
