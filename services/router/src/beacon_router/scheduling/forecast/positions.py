"""How many requests start before a waiting one, counted without a simulation."""

from beacon_router.scheduling.durations import Durations
from beacon_router.scheduling.fair_share import FairShares
from beacon_router.scheduling.state.request_queue import QueuedRequest, RequestQueue
from beacon_router.scheduling.state.topology import exclusive_limit


def requests_ahead(queued: QueuedRequest, durations: Durations) -> int:
    """By queue, tier, share and arrival, of those that compete for the same backends. Starvation and affinity
    change this order by no more than their limits allow, and are left out."""
    queue = queued.queue
    place = (queue.kind, queue.rank)
    competitors = _competitors(queue)
    ahead = sum(other.size for other in competitors if (other.kind, other.rank) < place)
    if queue.shares.by_user and not is_exclusive(queue):
        return ahead + _ahead_by_share(queued, queue.shares, durations)
    return ahead + sum(other.ahead(queued) for other in competitors if (other.kind, other.rank) == place)


def is_exclusive(queue: RequestQueue) -> bool:
    return any(
        limit.name == exclusive_limit(each.region.name, queue.model)
        for each in queue.sets
        for limit in each.region.model_limits.get(queue.model, ())
    )


def _competitors(queue: RequestQueue) -> dict[RequestQueue, None]:
    """Requests of an exclusive model compete with each other only."""
    found = dict.fromkeys([queue])
    for backend_set in queue.sets:
        found |= backend_set.domain.queues()
    if is_exclusive(queue):
        found = {other: None for other in found if other.model == queue.model}
    return found


def _ahead_by_share(queued: QueuedRequest, shares: FairShares, durations: Durations) -> int:
    """Of the same tier: each user's requests that start before the virtual time at which this one does. All
    runs are taken to cost the same, and weights of other users to be 1."""
    user = queued.request.user
    cost_s = max(1e-6, durations.runs.of(queued.request.model))
    own = sum(other.ahead(queued, user) for other in shares.queues_of(user))
    starts_at = shares.times[user] + own * cost_s / queued.request.weight
    ahead = own
    for other, waiting in shares.waiting.items():
        if other != user:
            before = int((starts_at - shares.times[other]) / cost_s + 0.5)
            ahead += min(waiting, max(0, before))
    return ahead
