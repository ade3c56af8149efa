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
        """Of the regions that can serve it, of those with a healthy backend if there are any."""
        backends = self._scheduler.topology.backends
        serving = [each for each in backends if model in each.models and not each.leaving]
        serving = [each for each in serving if needs <= each.capabilities] or serving
        up = [backend for backend in serving if self._breakers.health(backend.name) is not Health.OPEN]
        now = self._clock.now()

        def wait_s(region: str) -> float:
            eta = self._scheduler.eta_of_new(now, model, region, rank, needs)
            return inf if eta is None else eta.p50_s

        regions = list(dict.fromkeys(backend.region for backend in up or serving))
        return regions[0] if len(regions) == 1 else min(regions, key=wait_s)
