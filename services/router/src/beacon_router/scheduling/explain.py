"""What a waiting request waits for, in one structured reason."""

from beacon_router.scheduling.decisions import Health, Holdup, Why
from beacon_router.scheduling.fleet import Fleet
from beacon_router.scheduling.floor import Floor
from beacon_router.scheduling.lanes import Lane, Ticket
from beacon_router.scheduling.machines import Backend
from beacon_router.scheduling.queues import Queues


def explain(floor: Floor, queues: Queues, ticket: Ticket, lane: Lane) -> Why:
    """The most lasting obstacle first: nothing can serve it, then breakers, then limits, then the queue."""
    region = floor.regions[ticket.request.region]
    ahead = queues.ahead(ticket, lane)
    backends = [backend for fleet in lane.fleets for backend in fleet.backends]
    names = tuple(backend.name for backend in backends)
    if not backends:
        return Why(Holdup.NO_BACKEND, region.name, ahead)
    alive = [backend for backend in backends if backend.health is not Health.OPEN]
    if not alive:
        return Why(Holdup.BREAKER_OPEN, region.name, ahead, names)
    return (
        _held_by_model(lane, region.name, ahead)
        or _held_by_tokens(alive, region.name, ahead)
        or _held_by_region(lane.fleets, region.name, ahead)
        or _held_by_patience(ticket, alive, region.name, ahead)
        or _held_by_queue(alive, region.name, ahead)
    )


def _held_by_model(lane: Lane, region: str, ahead: int) -> Why | None:
    """Every region that could run it has its model shut."""
    guards = [fleet.region.guards.get(lane.model) for fleet in lane.fleets]
    shut = [guard for guard in guards if guard is not None and guard.shut]
    if len(shut) < len(guards):
        return None
    limit = shut[0].limit
    if limit is not None and limit.full:
        return Why(Holdup.MODEL_LIMIT, region, ahead, limit=limit.name)
    return Why(Holdup.EXCLUSIVE, region, ahead)


def _held_by_tokens(alive: list[Backend], region: str, ahead: int) -> Why | None:
    """There are free slots, but each needs a token that its group does not have, or another router has."""
    free = [backend for backend in alive if backend.has_slot]
    full = [limit for backend in free if (limit := backend.short_of) is not None]
    if not free or len(full) < len(free):
        return None
    names = tuple(backend.name for backend in free)
    return Why(Holdup.GROUP_CAP, region, ahead, names, limit=full[0].name)


def _held_by_region(fleets: tuple[Fleet, ...], region: str, ahead: int) -> Why | None:
    """There are free slots, but their regions run as much as they may."""
    free = [fleet for fleet in fleets if fleet.free]
    if not free or any(fleet.region.room for fleet in free):
        return None
    return Why(Holdup.REGION_FULL, region, ahead)


def _held_by_patience(ticket: Ticket, alive: list[Backend], region: str, ahead: int) -> Why | None:
    """It could have forced a load on a free slot, but waits for a backend that holds its model."""
    if ticket.allowance is None or not any(backend.has_slot for backend in alive):
        return None
    holders = tuple(backend.name for backend in alive if ticket.request.model in backend.loaded)
    return Why(Holdup.STANDS_ASIDE, region, ahead, holders)


def _held_by_queue(alive: list[Backend], region: str, ahead: int) -> Why:
    holdup = Holdup.BEHIND if ahead else Holdup.BACKENDS_FULL
    return Why(holdup, region, ahead, tuple(backend.name for backend in alive))
