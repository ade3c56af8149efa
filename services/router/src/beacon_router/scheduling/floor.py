"""Builds the machines of a topology and answers who can serve what, and where."""

from beacon_router.scheduling.averages import Durations
from beacon_router.scheduling.fleet import Fleet
from beacon_router.scheduling.lanes import Lane, Queue
from beacon_router.scheduling.limits import Limit
from beacon_router.scheduling.machines import Backend, Region
from beacon_router.scheduling.patience import Patience
from beacon_router.scheduling.pools import Pool, linked
from beacon_router.scheduling.topology import (
    BackendSpec,
    LimitName,
    Policy,
    RegionSpec,
    Topology,
    model_limit,
)


class Floor:
    def __init__(self, topology: Topology, policy: Policy) -> None:
        self.topology = topology
        self.policy = policy
        self.durations = Durations(topology.models)
        self.models = {model.name: model for model in topology.models}
        self.limits = _limits(topology)
        self.regions = {spec.name: self._region(spec) for spec in topology.regions}
        self.patience = Patience(policy, self.durations)
        self.backends: dict[str, Backend] = {}
        for spec in topology.backends:
            self._add_backend(spec)
        self.pools = [pool for region in self.regions.values() for pool in self._pools_of(region)]
        self._pools = {(pool.region, model): pool for pool in self.pools for model in pool.models}
        self._elsewhere = {name: Pool(name, [], len(policy.tiers)) for name in self.regions}

    def pool(self, region: str, model: str) -> Pool:
        return self._pools.get((region, model)) or self._elsewhere[region]

    def pools_of_model(self, model: str) -> list[Pool]:
        return [pool for pool in self.pools if model in pool.models]

    def fleets(self, region: str, model: str) -> list[Fleet]:
        return [fleet for fleet in self.regions[region].fleets if model in fleet.models]

    def entitled(self, lane: Lane) -> tuple[Fleet, ...]:
        """The fleets that may take from a lane, as the breakers stand."""
        home = self.fleets(lane.region, lane.model)
        if lane.queue is Queue.GLOBAL_RETRY:
            away = self._fleets_away(lane)
            return tuple(away if self._healthy_away(lane) else home + away)
        if lane.movable and not self.regions[lane.region].healthy_for(lane.model):
            return tuple(home + self._fleets_away(lane))
        return tuple(home)

    def _fleets_away(self, lane: Lane) -> list[Fleet]:
        others = (region for region in self.regions if region != lane.region)
        return [fleet for region in others for fleet in self.fleets(region, lane.model)]

    def _healthy_away(self, lane: Lane) -> bool:
        others = (region for region in self.regions.values() if region.name != lane.region)
        return any(region.healthy_for(lane.model) for region in others)

    def _region(self, spec: RegionSpec) -> Region:
        slots = sum(backend.slots for backend in self.topology.backends if backend.region == spec.name)
        region = Region(spec.name, slots if spec.concurrency is None else spec.concurrency)
        for model in self.topology.models:
            region.guard(model, self.limits.get(model_limit(model.name)))
        return region

    def _add_backend(self, spec: BackendSpec) -> None:
        region = self.regions[spec.region]
        fleet = next((fleet for fleet in region.fleets if fleet.models == spec.models), None)
        if fleet is None:
            fleet = Fleet(region, spec.models, self.policy, self.patience)
            region.fleets.append(fleet)
        backend = Backend(spec, fleet, tuple(self.limits[name] for name in spec.limits), self.durations)
        fleet.backends.append(backend)
        fleet.limited |= bool(backend.limits)
        backend.refresh()
        self.backends[spec.name] = backend
        for limit in self.limits.values():
            if limit in backend.limits or limit.model in spec.models:
                limit.concerns(backend)

    def _pools_of(self, region: Region) -> list[Pool]:
        return [Pool(region.name, fleets, len(self.policy.tiers)) for fleets in linked(region.fleets)]


def _limits(topology: Topology) -> dict[LimitName, Limit]:
    models = {model_limit(model.name): model.name for model in topology.models}
    return {name: Limit(name, cap, models.get(name)) for name, cap in topology.limits.items()}
