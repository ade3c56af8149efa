"""What a waiting request waits for, as one structured reason."""

from beacon_router.scheduling.decisions import Health, Holdup, Why
from beacon_router.scheduling.state.backend_set import BackendSet
from beacon_router.scheduling.state.backend_state import BackendState
from beacon_router.scheduling.state.request_queue import QueuedRequest, QueueKind, RequestQueue
from beacon_router.scheduling.state.topology import model_limit


def explain(queued: QueuedRequest, ahead: int) -> Why:
    """The most lasting obstacle first: no backend, then breakers, then limits, then the queue."""
    queue = queued.queue
    region = queued.request.region
    backends = [
        backend for each in queue.sets for backend in each.backends if queue.backend in (None, backend.name)
    ]
    if not backends:
        return Why(Holdup.NO_BACKEND, region, ahead)
    alive = [backend for backend in backends if backend.health is not Health.OPEN]
    if not alive:
        return Why(Holdup.BREAKER_OPEN, region, ahead, tuple(backend.name for backend in backends))
    if not any(backend.slots or queue.backend for backend in alive):
        return Why(Holdup.DRAINED, region, ahead, tuple(backend.name for backend in alive))
    return (
        _held_by_model(queue, region, ahead)
        or _held_by_region(queue.sets, region, ahead)
        or _held_by_tokens(alive, region, ahead)
        or _held_by_warm_wait(queue, alive, region, ahead)
        or _held_by_retry_wait(queue, region, ahead)
        or _held_by_queue(alive, region, ahead)
    )


def _held_by_model(queue: RequestQueue, region: str, ahead: int) -> Why | None:
    """In every region that could run it, a limit of its model is used up."""
    if not all(each.region.blocked(queue.model) for each in queue.sets):
        return None
    limits = queue.sets[0].region.model_limits[queue.model]
    limit = [each for each in limits if each.full][-1]
    if limit.name == model_limit(queue.model):
        if limit.cap == 0:
            return Why(Holdup.PAUSED, region, ahead)
        return Why(Holdup.MODEL_LIMIT, region, ahead, limit=limit.name)
    return Why(Holdup.EXCLUSIVE, region, ahead)


def _held_by_tokens(alive: list[BackendState], region: str, ahead: int) -> Why | None:
    """There are free slots, but each needs a token that its group does not have, or another router has."""
    free = [backend for backend in alive if backend.has_slot]
    full = [limit for backend in free if (limit := backend.short_of) is not None]
    if not free or len(full) < len(free):
        return None
    shared = full[0] is free[0].slot_tokens
    holdup = Holdup.SHARED_SLOTS if shared else Holdup.GROUP_CAP
    return Why(holdup, region, ahead, tuple(backend.name for backend in free), limit=full[0].name)


def _held_by_region(sets: tuple[BackendSet, ...], region: str, ahead: int) -> Why | None:
    """There are free slots, but their regions run as many requests as they may."""
    free = [each for each in sets if each.free]
    if not free or not all(each.region.full for each in free):
        return None
    return Why(Holdup.REGION_FULL, region, ahead)


def _held_by_warm_wait(queue: RequestQueue, alive: list[BackendState], region: str, ahead: int) -> Why | None:
    """A slot is free, and the policy waits for a backend that has the model loaded."""
    waits = any(queue.model in each.warm_waits for each in queue.sets if each.free)
    if queue.kind is not QueueKind.MAIN or not waits:
        return None
    holders = tuple(backend.name for backend in alive if queue.model in backend.loaded)
    return Why(Holdup.WARM_WAIT, region, ahead, holders)


def _held_by_retry_wait(queue: RequestQueue, region: str, ahead: int) -> Why | None:
    """Slots are free only where it failed."""
    free = [each.region.name for each in queue.sets if each.free]
    if not free or not queue.elsewhere or not queue.avoided.issuperset(free):
        return None
    return Why(Holdup.RETRY_ELSEWHERE, region, ahead)


def _held_by_queue(alive: list[BackendState], region: str, ahead: int) -> Why:
    holdup = Holdup.BEHIND if ahead else Holdup.BACKENDS_FULL
    return Why(holdup, region, ahead, tuple(backend.name for backend in alive))
