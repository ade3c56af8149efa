"""What the scheduler knows of backends and regions: runs, loaded models, health."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING

from beacon_router.scheduling.decisions import Health, Outcome, Request, RequestId
from beacon_router.scheduling.durations import Average, BackendDurations, Durations
from beacon_router.scheduling.state.limits import Limit
from beacon_router.scheduling.state.topology import BackendSpec

if TYPE_CHECKING:
    from beacon_router.scheduling.state.backend_set import BackendSet
    from beacon_router.scheduling.state.request_queue import RequestQueue

_RECENT = 256
"""Requests of a region that count as recent."""
_LATE = 0.3
"""What remains of a run that takes longer than expected, as a share of the expected time."""


class RunningRequest:
    """A request that has a slot."""

    __slots__ = (
        "backend",
        "charged_s",
        "ends",
        "limits",
        "loading",
        "needs_load",
        "queue",
        "request",
        "room_at",
        "started",
        "user",
        "waited_for_load",
    )

    def __init__(
        self, request: Request, backend: "BackendState", started: float, queue: "RequestQueue"
    ) -> None:
        self.request = request
        self.backend = backend
        self.started = started
        self.queue = queue
        """In which it waited: its user is charged in the region of the queue."""
        self.needs_load = request.model not in backend.loaded
        shared = backend.load_of(request.model)
        self.loading = self.needs_load or shared is not None
        """Its model is being loaded, for it or for an earlier run."""
        self.waited_for_load = self.loading
        """Its run began later than `started`."""
        self.room_at: float = started if shared is None else shared.room_at
        """When the backend had room for its model, as far as is known."""
        self.limits = backend.limits
        """Those of which it holds a token."""
        self.charged_s = backend.runs_s.of_size(request.model, request.size)
        self.user: str
        """Who is charged; set when it is."""
        ready_at = started
        if shared is not None:
            ready_at = max(started, shared.ends - shared.charged_s)
        elif self.needs_load:
            ends = {run: run.ends for run in backend.runs.values()}
            ready_at = backend.room_at(request.model, started, ends) + backend.loads_s.of(request.model)
        self.ends: float = ready_at + self.charged_s
        """When it is expected to end."""

    def fork(self, backend: "BackendState", limits: tuple[Limit, ...]) -> "RunningRequest":
        """An independent copy for a forecast."""
        copy = RunningRequest.__new__(RunningRequest)
        copy.request, copy.backend, copy.limits = self.request, backend, limits
        copy.started, copy.ends = self.started, self.ends
        copy.room_at = self.room_at
        copy.needs_load, copy.loading = self.needs_load, self.loading
        copy.waited_for_load = self.waited_for_load
        copy.charged_s, copy.queue, copy.user = self.charged_s, self.queue, self.user
        return copy

    def likely_end(self, now: float, before: "Mapping[RunningRequest, float]") -> float:
        """When a run that has taken this long already ends. `before`: the ends of the runs that its backend
        has started earlier."""
        model, size, backend = self.request.model, self.request.size, self.backend
        ends = self.ends
        if self.loading:
            ends = backend.room_at(model, self.room_at, before) + backend.loads_s.of(model) + self.charged_s
        left_s = _LATE * backend.runs_s.uncertainty(model, size) * backend.runs_s.of_size(model, size)
        return max(ends, now + left_s)

    def loaded(self, now: float) -> None:
        """Its model is loaded: what remains is the run."""
        self.loading = False
        self.ends = now + self.backend.runs_s.of_size(self.request.model, self.request.size)


class BackendState:
    __slots__ = (
        "backend_set",
        "health",
        "limits",
        "loaded",
        "loads_s",
        "name",
        "probe",
        "region",
        "room_waits",
        "runs",
        "runs_s",
        "slot_tokens",
        "slots",
        "spec",
        "used_at",
    )

    def __init__(
        self, spec: BackendSpec, backend_set: "BackendSet", limits: tuple[Limit, ...], durations: Durations
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.slots = 0 if spec.drain else spec.slots
        self.backend_set = backend_set
        self.region = backend_set.region
        self.limits = limits
        """Any run needs a token of each: of its group, its region, and its slots if routers share them."""
        self.slot_tokens = limits[-1] if spec.shared else None
        self.loads_s = BackendDurations(durations.loads)
        self.runs_s = BackendDurations(durations.runs)
        self.room_waits = Average(1.0)
        """The share of its loads that wait for runs of other models: none with a GPU for each run."""
        self.health = Health.CLOSED
        self.probe: RequestId | None = None
        self.runs: dict[RequestId, RunningRequest] = {}
        self.loaded: list[str] = []
        """Most recently used last."""
        self.used_at = 0
        """The number of its last dispatch."""

    def fork(self, backend_set: "BackendSet", limits: tuple[Limit, ...]) -> "BackendState":
        """An independent copy for a forecast, without runs; durations are shared and only read."""
        copy = BackendState.__new__(BackendState)
        copy.spec, copy.name, copy.slots, copy.backend_set = self.spec, self.name, self.slots, backend_set
        copy.limits, copy.slot_tokens = limits, limits[-1] if self.spec.shared else None
        copy.region, copy.loads_s, copy.runs_s = backend_set.region, self.loads_s, self.runs_s
        copy.room_waits = self.room_waits
        copy.health, copy.probe, copy.runs = self.health, self.probe, {}
        copy.loaded, copy.used_at = self.loaded.copy(), self.used_at
        return copy

    @property
    def free_at(self) -> float:
        """When a slot is expected to be free; 0 when one is. With fewer slots than runs, several runs have to
        end first."""
        excess = len(self.runs) - self.slots
        if excess < 0:
            return 0.0
        if excess == 0:
            return min((run.ends for run in self.runs.values()), default=inf)
        return sorted(run.ends for run in self.runs.values())[excess] if self.slots else inf

    def load_of(self, model: str) -> RunningRequest | None:
        """The run whose load of this model is in progress, so that others of the model wait for it too."""
        if model not in self.loaded:
            return None
        loading = [run for run in self.runs.values() if run.loading and run.request.model == model]
        return min(loading, key=lambda run: run.ends - run.charged_s, default=None)

    def room_at(self, model: str, now: float, ends: Mapping[RunningRequest, float]) -> float:
        """When these runs leave room to load a model, not before `now`: a model in use is not evicted."""
        in_use: dict[str, float] = {}
        for run, end in ends.items():
            if run.request.model != model:
                in_use[run.request.model] = max(end, in_use.get(run.request.model, now))
        excess = len(in_use) - self.spec.loaded_models
        return now if excess < 0 else now + self.room_waits.value * (sorted(in_use.values())[excess] - now)

    def learn_load(self, run: RunningRequest, load_s: float) -> None:
        """A run started so long after it got its slot. A load that took less than its wait for room did not
        wait."""
        model, room_s = run.request.model, run.room_at - run.started
        waited = load_s >= room_s
        if room_s > self.loads_s.of(model):
            self.room_waits.add(float(waited))
        self.loads_s.add(model, load_s - room_s if waited else load_s)

    def likely_ends(self, now: float) -> dict[RunningRequest, float]:
        """When its runs end, as far as is known now."""
        ends: dict[RunningRequest, float] = {}
        for run in self.runs.values():
            ends[run] = run.likely_end(now, ends)
        return ends

    def _without_room(self) -> list[RunningRequest]:
        """The runs whose load has not begun, because earlier runs use other models."""
        found, models = [], set[str]()
        for run in self.runs.values():
            if run.loading and len(models - {run.request.model}) >= self.spec.loaded_models:
                found.append(run)
            models.add(run.request.model)
        return found

    @property
    def short_of(self) -> Limit | None:
        """The limit of which there is no token left."""
        for limit in self.limits:
            if limit.used >= limit.held:
                return limit
        return None

    @property
    def has_slot(self) -> bool:
        """A slot is free and the breaker lets work through; tokens are another matter."""
        return self in self.backend_set.free

    def refresh(self) -> None:
        """Runs or the breaker have changed: the backend may have a free slot or none."""
        admits = self.health is Health.CLOSED or (self.health is Health.HALF_OPEN and self.probe is None)
        if admits and len(self.runs) < self.slots:
            self.backend_set.free[self] = None
        else:
            self.backend_set.free.pop(self, None)
        self.region.recheck_warm_waits(self.loaded)

    def occupy(self, run: RunningRequest) -> None:
        self.runs[run.request.id] = run
        if self.health is Health.HALF_OPEN:
            self.probe = run.request.id
        self.touch(run.request.model)
        self.backend_set.free.pop(self, None)
        self.refresh()  # behind those that have been idle for longer

    @property
    def continues(self) -> bool:
        """A run that is in progress there may take a slot: also while it is drained, and if it would be lost
        with the backend, while that does not answer."""
        if self.health is Health.OPEN:
            return not self.spec.durable_runs and len(self.runs) < self.spec.slots
        return len(self.runs) < self.spec.slots if self.spec.drain else self.has_slot

    def adopt(self, source: "BackendState") -> None:
        """Continue with what is known of the backend, except its runs."""
        self.health, self.probe, self.used_at = source.health, source.probe, source.used_at
        self.loads_s = source.loads_s.on(self.loads_s.shared)
        self.runs_s = source.runs_s.on(self.runs_s.shared)
        self.room_waits = source.room_waits
        for model in source.loaded[-self.spec.loaded_models :]:
            self.loaded.append(model)
            self.region.holders[model][self] = None

    def vacate(self, now: float, run: RunningRequest) -> None:
        for waiting in self._without_room():
            waiting.room_at = now
        del self.runs[run.request.id]
        if self.probe == run.request.id:
            self.probe = None
        self.refresh()

    def touch(self, model: str) -> None:
        """The model is in use: loaded, most recently used; the oldest is evicted if there is no room."""
        loaded = self.loaded
        if loaded and loaded[-1] == model:
            return
        if model in loaded:
            loaded.remove(model)
        else:
            self.region.holders[model][self] = None
            self.region.recheck_warm_waits((model,))
            if len(loaded) == self.spec.loaded_models:
                self.unload(loaded[0])
        loaded.append(model)

    def model_loaded(self, now: float, model: str) -> None:
        """The model is loaded: what remains of the runs that waited for it is the run. The models of later
        runs may have taken its place already."""
        others = {run.request.model for run in self.runs.values()} - {model}
        if model in self.loaded or len(others) < self.spec.loaded_models:
            self.touch(model)
        waiting = self._without_room()
        for run in self.runs.values():
            if run.loading and run.request.model == model and run not in waiting:
                run.loaded(now)
        self.region.recheck_warm_waits(self.loaded)

    def unload(self, model: str) -> None:
        self.loaded.remove(model)
        del self.region.holders[model][self]
        self.region.recheck_warm_waits((model,))

    def __repr__(self) -> str:
        health = "" if self.health is Health.CLOSED else f", breaker {self.health.replace('_', ' ')}"
        loaded = " and ".join(self.loaded) or "nothing"
        return f"{self.name} ({len(self.runs)} of {self.slots} busy, loaded: {loaded}{health})"


class RegionState:
    __slots__ = (
        "concurrency",
        "holders",
        "limit",
        "model_limits",
        "name",
        "outcomes",
        "recent",
        "requests",
        "sets",
    )

    def __init__(self, name: str, concurrency: int, limit: Limit | None) -> None:
        self.name = name
        self.concurrency = concurrency
        self.limit = limit
        """Of the runs in the region; None: only its slots limit them."""
        self.model_limits: dict[str, tuple[Limit, ...]] = {}
        """Of the models that are exclusive or have a limit: a run needs a token of each."""
        self.holders: defaultdict[str, dict[BackendState, None]] = defaultdict(dict)
        """Backends by the models that they have loaded."""
        self.recent: deque[str] = deque()
        """The models of the last requests,"""
        self.requests: Counter[str] = Counter()
        """and how many of them each model has."""
        self.sets: list[BackendSet] = []
        self.outcomes = dict.fromkeys(Outcome, 0)

    @property
    def full(self) -> bool:
        return self.limit is not None and self.limit.full

    @property
    def configured(self) -> bool:
        """It has more than backends that were removed from the configuration."""
        return any(not backend.spec.leaving for each in self.sets for backend in each.backends)

    def requested(self, model: str) -> None:
        """A request for the model has arrived."""
        self.recent.append(model)
        self.requests[model] += 1
        if len(self.recent) > _RECENT:
            self.requests[self.recent.popleft()] -= 1

    def demand_for(self, model: str) -> float:
        """The recent requests for a loaded model, for each backend that has it loaded."""
        return self.requests[model] / len(self.holders[model])

    def blocked(self, model: str) -> bool:
        """The model may not start another run here now."""
        limits = self.model_limits.get(model)
        return limits is not None and any(limit.full for limit in limits)

    def recheck_warm_waits(self, models: Iterable[str]) -> None:
        """The backends that have these models loaded changed: it is decided again which requests wait."""
        for backend_set in self.sets:
            for model in models:
                if model in backend_set.warm_waits:
                    backend_set.recheck_warm_wait(model)

    def healthy_for(self, model: str, needs: frozenset[str]) -> bool:
        """A backend with a closed breaker and slots serves the model here and has the capabilities."""
        return any(
            backend.health is Health.CLOSED and backend.slots > 0
            for backend_set in self.sets
            if backend_set.serves(model, needs)
            for backend in backend_set.backends
        )

    def __repr__(self) -> str:
        backends = [backend for each in self.sets for backend in each.backends]
        running = sum(len(backend.runs) for backend in backends)
        names = ", ".join(map(repr, backends)) or "no backend"
        return f"{self.name} runs {running} of {self.concurrency} on {names}"
