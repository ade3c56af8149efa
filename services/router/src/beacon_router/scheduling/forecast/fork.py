"""An independent copy of the state of a competition domain: the view of a forecast."""

from collections.abc import Collection, Mapping

from beacon_router.scheduling.fair_share import FairShares
from beacon_router.scheduling.state.backend_set import BackendSet
from beacon_router.scheduling.state.backend_state import BackendState, RegionState, RunningRequest
from beacon_router.scheduling.state.domains import CompetitionDomain
from beacon_router.scheduling.state.limits import Limit
from beacon_router.scheduling.state.request_queue import QueueKind, RequestQueue
from beacon_router.scheduling.state.topology import LimitName


class ForkedDomain:
    """Queues, backends, limits and shares, copied so that nothing done here changes the live state.

    Runs of other domains do not end here: their part of a limit or of the region's concurrency is left out.
    Of a limit in `granted`, more tokens than are held now are expected to be granted, up to its cap.
    """

    def __init__(
        self,
        domain: CompetitionDomain,
        shares: Mapping[str, tuple[FairShares, ...]],
        granted: Collection[LimitName] = (),
    ) -> None:
        self._live_shares = shares
        self._granted = granted
        self._limits: dict[LimitName, Limit] = {}
        self._queues: dict[RequestQueue, RequestQueue] = {}
        self._shares: dict[str, tuple[FairShares, ...]] = {}
        live = domain.region
        limit = None if live.limit is None else self._limit(live.limit)
        self.region = RegionState(live.name, live.concurrency, limit)
        self.region.requests = live.requests  # only read
        for model, limits in live.model_limits.items():
            self.region.model_limits[model] = tuple(self._limit(each) for each in limits)
        self._sets = {backend_set: self._set(backend_set) for backend_set in domain.sets}
        self.sets = list(self._sets.values())
        if limit is not None:  # runs of other domains end too, so that at least one run is possible
            limit.held = max(1, limit.held)
        for queue in domain.queues():
            self.queue(queue)

    @property
    def runs(self) -> list[RunningRequest]:
        return [run for each in self.sets for backend in each.backends for run in backend.runs.values()]

    def queue(self, live: RequestQueue) -> RequestQueue:
        """The copy of a queue."""
        copy = self._queues.get(live)
        if copy is None:
            main = live.kind is QueueKind.MAIN
            shares = self.shares_of(live.region, live.rank) if main else live.shares.fork(self._queues)
            copy = self._queues[live] = live.fork(shares)
            copy.sets = tuple(self._sets[each] for each in live.sets if each in self._sets)
            if copy.size:
                for backend_set in copy.sets:
                    backend_set.activate(copy)
        return copy

    def new_queue(self, model: str, rank: int) -> RequestQueue:
        """An empty one, of pinned requests, for which a token of the limits of its model is expected."""
        for limit in self.region.model_limits.get(model, ()):
            limit.held = max(1, limit.held)
        shares = self.shares_of(self.region.name, rank)
        queue = RequestQueue(QueueKind.MAIN, self.region.name, model, rank, pinned=True, shares=shares)
        queue.sets = tuple(each for each in self.sets if model in each.models)
        return queue

    def shares_of(self, region: str, rank: int) -> FairShares:
        if region not in self._shares:
            self._shares[region] = tuple(live.fork(self._queues) for live in self._live_shares[region])
        return self._shares[region][rank]

    def _limit(self, live: Limit) -> Limit:
        if live.name not in self._limits:
            copy = self._limits[live.name] = Limit(live.name, live.cap, live.model)
            held = live.cap if live.name in self._granted else live.held
            copy.held, copy.served = held - live.used, live.served.copy()  # and those of the runs copied
        return self._limits[live.name]

    def _set(self, live: BackendSet) -> BackendSet:
        shares = [self.shares_of(live.region.name, rank) for rank in range(len(live.policy.tiers))]
        copy = BackendSet(
            self.region, live.models, live.policy, shares, live.durations, capabilities=live.capabilities
        )
        copy.batch, copy.bypass_run, copy.served_at = live.batch, live.bypass_run, live.served_at
        copy.stride = live.stride.fork()
        self.region.sets.append(copy)
        backends = {backend: self._backend(backend, copy) for backend in live.backends}
        copy.backends = list(backends.values())
        copy.free = {backends[backend]: None for backend in live.free}
        return copy

    def _backend(self, live: BackendState, backend_set: BackendSet) -> BackendState:
        limits = tuple(self._limit(limit) for limit in live.limits)
        copy = live.fork(backend_set, limits)
        for model in copy.loaded:
            self.region.holders[model][copy] = None
        for run in live.runs.values():
            forked = run.fork(copy, tuple(self._limit(limit) for limit in run.limits))
            copy.runs[run.request.id] = forked
            for limit in forked.limits:
                limit.used += 1
                limit.held += 1
        return copy
