"""When a waiting request will start: the work ahead over the slots that can do it."""

from beacon_router.core.decisions import Eta, Health
from beacon_router.core.floor import Floor
from beacon_router.core.lanes import Lane, Queue, Ticket
from beacon_router.core.machines import Backend
from beacon_router.core.pools import Pool
from beacon_router.core.queues import Queues


class Estimator:
    __slots__ = ("_floor", "_queues", "ranks")

    def __init__(self, floor: Floor, queues: Queues) -> None:
        self._floor = floor
        self._queues = queues
        self.ranks = len(floor.policy.tiers)

    def of_waiting(self, now: float, ticket: Ticket, lane: Lane) -> Eta:
        ahead = self._queues.ahead(ticket, lane)
        return self._estimate(now, lane.pool, ahead)

    def of_new(self, now: float, model: str, region: str, rank: int) -> Eta:
        pool = self._floor.pool(region, model)
        ahead = pool.moving + sum(line.count for line in pool.lines_ahead(Queue.MAIN, rank + 1))
        return self._estimate(now, pool, ahead)

    def started(self, now: float, ticket: Ticket, lane: Lane, backend: Backend, *, loading: bool) -> None:
        """What was foretold can be compared with what came."""

    def _estimate(self, now: float, pool: Pool, ahead: int) -> Eta:
        backends = [b for fleet in pool.fleets for b in fleet.backends if b.health is not Health.OPEN]
        slots = sum(backend.slots for backend in backends) or 1
        work = sum(self._floor.durations.runs.of(model) * n for model, n in pool.by_model.items())
        mean = work / (sum(pool.by_model.values()) or 1)
        left = sum(max(0.0, run.ends - now) for backend in backends for run in backend.runs.values())
        p50 = (left + ahead * mean) / slots
        return Eta(p50, 2 * p50)
