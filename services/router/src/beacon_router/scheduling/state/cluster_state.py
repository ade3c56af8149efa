"""Builds the state of a topology: regions, backend sets, limits, shares; and which sets serve which queue."""

from beacon_router.scheduling.decisions import Request
from beacon_router.scheduling.durations import Durations
from beacon_router.scheduling.fair_share import FairShares
from beacon_router.scheduling.state.backend_set import BackendSet
from beacon_router.scheduling.state.backend_state import BackendState, RegionState
from beacon_router.scheduling.state.domains import CompetitionDomain, linked
from beacon_router.scheduling.state.limits import Limit
from beacon_router.scheduling.state.request_queue import QueueKind, RequestQueue
from beacon_router.scheduling.state.topology import (
    BackendSpec,
    Fairness,
    LimitName,
    Policy,
    RegionSpec,
    Topology,
    exclusive_limit,
    model_limit,
    region_limit,
)


class ClusterState:
    def __init__(self, topology: Topology, policy: Policy, durations: Durations | None = None) -> None:
        """`durations`: measured in an earlier topology."""
        self.topology = topology
        self.policy = policy
        self.durations = Durations(topology.models, durations)
        self.models = {model.name: model for model in topology.models}
        self.limits = _limits(topology)
        self.regions = {spec.name: self._region(spec) for spec in topology.regions}
        fair = policy.fairness is Fairness.FAIR
        self.shares = {
            region: tuple(FairShares(by_user=fair) for _ in policy.tiers) for region in self.regions
        }
        """By region and rank."""
        self.backends: dict[str, BackendState] = {}
        for spec in topology.backends:
            self._add_backend(spec)
        self.domains = [domain for region in self.regions.values() for domain in _domains(region)]
        self._domains = {
            (domain.region.name, model): domain for domain in self.domains for model in domain.models
        }
        self._unserved = {name: CompetitionDomain(region, []) for name, region in self.regions.items()}

    def domain(self, region: str, model: str) -> CompetitionDomain:
        return self._domains.get((region, model)) or self._unserved[region]

    def sets(self, region: str, model: str, needs: frozenset[str] = frozenset()) -> list[BackendSet]:
        """The backend sets of a region that serve a model and have the capabilities."""
        return [each for each in self.regions[region].sets if each.serves(model, needs)]

    def can_serve(self, request: Request) -> bool:
        """A backend of the configuration serves it where it may run, now or when it is resumed."""
        home = self.regions.get(request.region)
        if home is None or not home.configured:
            return False
        return any(
            not backend.spec.leaving
            for region in ([home] if request.pinned else self.regions.values())
            for backend_set in self.sets(region.name, request.model, request.needs)
            for backend in backend_set.backends
        )

    def shares_of(self, kind: QueueKind, region: str, rank: int) -> FairShares:
        """By which a queue orders its users; the order of all but the main queues is arrival."""
        return self.shares[region][rank] if kind is QueueKind.MAIN else FairShares(by_user=False)

    def eligible_sets(self, queue: RequestQueue) -> tuple[BackendSet, ...]:
        """The backend sets that may take from a queue, as the breakers are now."""
        if queue.backend is not None:
            return (self.backends[queue.backend].backend_set,)
        home = self.sets(queue.region, queue.model, queue.needs)
        if queue.kind is QueueKind.GLOBAL_RETRY:
            return tuple(home + self._sets_elsewhere(queue))
        if not queue.pinned and not self.regions[queue.region].healthy_for(queue.model, queue.needs):
            return tuple(home + self._sets_elsewhere(queue))
        return tuple(home)

    def healthy_outside(self, queue: RequestQueue) -> bool:
        """A healthy backend of a region that the queue does not avoid can serve it."""
        others = (region for name, region in self.regions.items() if name not in queue.avoided)
        return any(region.healthy_for(queue.model, queue.needs) for region in others)

    def avoided(self, request: Request, failed_in: str, tried: frozenset[str]) -> frozenset[str]:
        """The regions that a retry avoids: all that it was tried in, if one that can serve it is left."""
        left = set(self.regions) - tried - {failed_in}
        return (
            tried | {failed_in}
            if any(self.sets(region, request.model, request.needs) for region in left)
            else frozenset({failed_in})
        )

    def _sets_elsewhere(self, queue: RequestQueue) -> list[BackendSet]:
        others = (region for region in self.regions if region != queue.region)
        return [
            backend_set for region in others for backend_set in self.sets(region, queue.model, queue.needs)
        ]

    def _region(self, spec: RegionSpec) -> RegionState:
        slots = sum(backend.slots for backend in self.topology.backends if backend.region == spec.name)
        concurrency = slots if spec.concurrency is None else spec.concurrency
        region = RegionState(spec.name, concurrency, self.limits.get(region_limit(spec.name)))
        for model in self.models:
            names = (exclusive_limit(spec.name, model), model_limit(model))
            limits = tuple(self.limits[name] for name in names if name in self.limits)
            if limits:
                region.model_limits[model] = limits
        return region

    def _add_backend(self, spec: BackendSpec) -> None:
        region = self.regions[spec.region]
        kind = (spec.models, spec.capabilities)
        backend_set = next((each for each in region.sets if (each.models, each.capabilities) == kind), None)
        if backend_set is None:
            shares = self.shares[region.name]
            backend_set = BackendSet(
                region, spec.models, self.policy, shares, self.durations, capabilities=spec.capabilities
            )
            region.sets.append(backend_set)
        limits = tuple(self.limits[name] for name in self.topology.limits_of(spec))
        backend = BackendState(spec, backend_set, limits, self.durations)
        backend_set.backends.append(backend)
        backend.refresh()
        self.backends[spec.name] = backend
        for limit in limits:
            limit.add_backend(backend)
        for model in spec.models:
            for limit in region.model_limits.get(model, ()):
                limit.add_backend(backend)


def _limits(topology: Topology) -> dict[LimitName, Limit]:
    models = {model_limit(model.name): model.name for model in topology.models}
    for region in topology.regions:
        models |= {exclusive_limit(region.name, model.name): model.name for model in topology.models}
    return {name: Limit(name, cap, models.get(name)) for name, cap in topology.limits.items()}


def _domains(region: RegionState) -> list[CompetitionDomain]:
    return [CompetitionDomain(region, sets) for sets in linked(region.sets)]
