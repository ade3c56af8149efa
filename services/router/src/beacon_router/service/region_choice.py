"""The region of a request that names none."""

from math import inf

from beacon_lifecycle import Clock
from beacon_router.scheduling import Health, Scheduler
from beacon_router.service.breakers import Breakers


class RegionChoice:
    def __init__(self, scheduler: Scheduler, breakers: Breakers, clock: Clock) -> None:
        self._scheduler = scheduler
        self._breakers = breakers
        self._clock = clock

    def shortest_wait(self, model: str, rank: int, needs: frozenset[str]) -> str:
        """Of the regions that can serve it, of those with a healthy backend if there are any: the first one
        where it starts at once on a loaded model, else the one with the shortest estimated wait."""
        backends = self._scheduler.topology.backends
        serving = [each for each in backends if model in each.models and not each.leaving]
        serving = [each for each in serving if needs <= each.capabilities] or serving
        up = [backend for backend in serving if self._breakers.health(backend.name) is not Health.OPEN]
        regions = list(dict.fromkeys(backend.region for backend in up or serving))
        if len(regions) == 1:
            return regions[0]
        for region in regions:
            if self._scheduler.starts_at_once(model, region, needs):
                return region
        waits: dict[str, float] = {}
        for region in regions:
            waits[region] = self._wait_s(model, region, rank, needs)
            if waits[region] == 0.0:  # none is shorter, and each forecast costs more than the request itself
                break
        return min(waits, key=waits.__getitem__)

    def _wait_s(self, model: str, region: str, rank: int, needs: frozenset[str]) -> float:
        eta = self._scheduler.eta_of_new(self._clock.now(), model, region, rank, needs)
        return inf if eta is None else eta.p50_s
