"""Carries decisions out: which region and fleet is asked, who gets the slot, and what is free again after."""

from collections.abc import Iterable

from beacon_router.scheduling.decisions import Decision, Expired, RequestId, Start
from beacon_router.scheduling.estimates import Estimator
from beacon_router.scheduling.fleet import Fleet, Pick
from beacon_router.scheduling.floor import Floor
from beacon_router.scheduling.lanes import Lane, Ticket
from beacon_router.scheduling.limits import Limit
from beacon_router.scheduling.machines import Region, Run
from beacon_router.scheduling.queues import Queues


class Dispatcher:
    __slots__ = ("_dispatches", "_estimator", "_floor", "_freed", "_queues", "_stirred", "runs")

    def __init__(self, floor: Floor, queues: Queues, estimator: Estimator) -> None:
        self.runs: dict[RequestId, Run] = {}
        self._floor = floor
        self._queues = queues
        self._estimator = estimator
        self._dispatches = 0
        self._stirred: dict[Region, None] = {}
        """Regions in which something may be able to start."""
        self._freed: dict[Limit, None] = {}
        """Limits of which a token came back since the last `next`."""

    def stir(self, lane: Lane) -> None:
        """Look at the lane when asked next: who comes first in it may have changed."""
        for fleet in lane.fleets:
            self._stirred[fleet.region] = None

    def stir_regions(self, regions: Iterable[Region]) -> None:
        """Look at these regions when asked next."""
        self._stirred.update(dict.fromkeys(regions))

    def forget(self, ticket: Ticket, lane: Lane) -> None:
        """It no longer waits, and has not started."""
        self._queues.leave(ticket, lane)
        self.stir(lane)

    def next(self, now: float) -> list[Decision]:
        decisions: list[Decision] = []
        if self._queues.deadlines:
            for ticket, lane in self._queues.expired(now):
                self.forget(ticket, lane)
                decisions.append(Expired(ticket.request.id))
        for fleet in self._floor.patience.over(now):
            self._stirred[fleet.region] = None
        stirred, waiting = self._stirred, self._queues.tickets
        regions = self._in_turn() if waiting and len(stirred) > 1 else list(stirred)
        while regions and waiting:
            region = regions.pop(0)
            if self._dispatch(now, region, decisions):
                regions.append(region)
        stirred.clear()
        self._freed.clear()
        return decisions

    def free(self, now: float, run: Run) -> None:
        """A run ended: its slot and tokens are free."""
        fleet = run.backend.fleet
        region = fleet.region
        del self.runs[run.request.id]
        run.backend.vacate(now, run)
        region.room += 1
        fleet.pool.changes += 1
        self._stirred[region] = None
        guard = region.guards.get(run.request.model)
        if guard is not None:
            guard.running -= 1
            guard.reopen()
        for limit in run.limits:
            limit.used -= 1
            self.token_freed(limit)

    def token_freed(self, limit: Limit) -> None:
        if limit.full:
            return
        self._freed[limit] = None
        self.stir_regions(limit.regions)
        if limit.model is not None:
            for region in limit.regions:
                region.guards[limit.model].reopen()

    def _in_turn(self) -> list[Region]:
        """The regions to look at; a token that was freed goes to the one that has gone longest without."""
        regions = [region for region in self._floor.regions.values() if region in self._stirred]
        if self._freed:
            regions.sort(key=lambda region: [limit.served.get(region, 0) for limit in self._freed])
        return regions

    def _dispatch(self, now: float, region: Region, decisions: list[Decision]) -> bool:
        """Start one there; True if another one may be able to start, too."""
        if not region.room:
            return False
        fleets = region.fleets
        pick = fleets[0].pick(now) if len(fleets) == 1 else _pick(now, fleets)
        if pick is None:
            return False
        decisions.append(self._start(now, pick))
        return region.room > 0

    def _start(self, now: float, pick: Pick) -> Start:
        self._dispatches += 1
        lane, backend = pick.lane, pick.backend
        fleet, ticket = backend.fleet, lane.head
        region = fleet.region
        request = ticket.request
        if ticket.foretold is not None:
            self._estimator.started(now, ticket.foretold, lane)
        fleet.take(pick, self._dispatches)
        self._queues.leave(ticket, lane)
        run = Run(request, backend, now)
        self._occupy(region, run)
        moved = region.name != request.region
        return Start(request.id, backend.name, region.name, run.loading, pick.reason, moved)

    def _occupy(self, region: Region, run: Run) -> None:
        request = run.request
        self.runs[request.id] = run
        run.backend.occupy(run)
        region.room -= 1
        guard = region.guards.get(request.model)
        if guard is not None:
            guard.running += 1
            if guard.limit is not None:
                run.limits += (guard.limit,)
        for limit in run.limits:
            limit.used += 1
            limit.served[region] = self._dispatches


def _pick(now: float, fleets: list[Fleet]) -> Pick | None:
    """The choice of the fleet that has gone longest without a dispatch."""
    for fleet in sorted(fleets, key=lambda fleet: fleet.served_at):
        pick = fleet.pick(now)
        if pick is not None:
            return pick
    return None
