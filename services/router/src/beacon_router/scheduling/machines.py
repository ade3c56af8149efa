"""What the scheduler knows of backends and regions: who is busy, what is loaded, how healthy."""

from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING, Final

from beacon_router.scheduling.averages import Durations, OwnAverages
from beacon_router.scheduling.decisions import Health, Outcome, Request, RequestId
from beacon_router.scheduling.heads import Guard
from beacon_router.scheduling.limits import Limit
from beacon_router.scheduling.topology import BackendSpec, ModelSpec

if TYPE_CHECKING:
    from beacon_router.scheduling.fleet import Fleet

_CLOSED: Final = Health.CLOSED
_HALF_OPEN: Final = Health.HALF_OPEN
"""Asking an enum for a member costs as much as a call, and these are asked for in every decision."""

_LATE: Final = 0.3
"""What remains of a run that takes longer than expected, as a share of that, where no size is told."""


class Run:
    """A request that has a slot."""

    __slots__ = ("backend", "began", "ends", "limits", "loading", "request", "started")

    def __init__(self, request: Request, backend: "Backend", started: float) -> None:
        self.request = request
        self.backend = backend
        self.started = started
        self.loading = request.model not in backend.loaded
        self.limits = backend.limits
        """Those of which it holds a token."""
        self.began = started
        """When the run without the load began."""
        self.ends = started + backend.runs_s.of_size(request.model, request.size)
        """When it is expected to."""
        if self.loading:
            self.ends += backend.loads_s.of(request.model)

    def likely_end(self, now: float) -> float:
        """When it ends, of runs that have gone on for so long already."""
        model, size, runs_s = self.request.model, self.request.size, self.backend.runs_s
        return max(self.ends, now + _LATE * runs_s.doubt(model, size) * runs_s.of_size(model, size))

    def loaded(self, now: float) -> None:
        """Its model is there: what remains is the run."""
        self.loading = False
        self.began = now
        self.ends = now + self.backend.runs_s.of_size(self.request.model, self.request.size)


class Backend:
    __slots__ = (
        "fleet",
        "health",
        "limits",
        "loaded",
        "loads_s",
        "name",
        "probe",
        "rested",
        "runs",
        "runs_s",
        "slot_tokens",
        "slots",
        "spec",
        "used_at",
    )

    def __init__(
        self, spec: BackendSpec, fleet: "Fleet", limits: tuple[Limit, ...], durations: Durations
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.slots = spec.slots
        self.fleet = fleet
        self.limits = limits
        """Any run needs a token of each: its group's, and that of its slots if other routers use them."""
        self.slot_tokens = limits[-1] if spec.shared else None
        self.loads_s = OwnAverages(durations.loads)
        self.runs_s = OwnAverages(durations.runs)
        self.health = _CLOSED
        self.probe: RequestId | None = None
        self.runs: dict[RequestId, Run] = {}
        self.loaded: list[str] = []
        """Most recently used last."""
        self.used_at = 0
        """The number of its last dispatch."""
        self.rested = -inf
        """When a run of it last ended."""

    @property
    def free_at(self) -> float:
        """When a slot is expected to be free; 0 when one is."""
        if len(self.runs) < self.slots:
            return 0.0
        soonest = inf
        for run in self.runs.values():  # most often one
            soonest = min(soonest, run.ends)
        return soonest

    @property
    def may_start(self) -> bool:
        """A slot is free, and so is a token of each of its limits."""
        return self.has_slot and self.short_of is None

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
        return self in self.fleet.free

    def refresh(self) -> None:
        """Runs or the breaker have changed, so that it may have a slot or none."""
        lets_through = self.health is _CLOSED or (self.health is _HALF_OPEN and self.probe is None)
        if lets_through and len(self.runs) < self.slots:
            self.fleet.free[self] = None
        else:
            self.fleet.free.pop(self, None)
        if self.fleet.region.settled:
            self.fleet.region.hope_changed(self.loaded)

    def occupy(self, run: Run) -> None:
        request = run.request
        self.runs[request.id] = run
        if self.health is _HALF_OPEN:
            self.probe = request.id
        if run.loading or len(self.loaded) > 1:
            self.touch(request.model)
        del self.fleet.free[self]
        if len(self.runs) < self.slots and self.probe is None:
            self.fleet.free[self] = None  # behind those that have rested longer
        if self.fleet.region.settled:
            self.fleet.region.hope_changed(self.loaded)

    def vacate(self, now: float, run: Run) -> None:
        self.rested = now
        del self.runs[run.request.id]
        if self.probe == run.request.id:
            self.probe = None
        self.refresh()

    def touch(self, model: str) -> None:
        """The model is in use: loaded, most recently used, and the oldest gone if there is no room."""
        loaded = self.loaded
        if loaded and loaded[-1] == model:
            return
        if model not in loaded:
            self.fleet.region.holders[model][self] = None
            if len(self.loaded) == self.spec.loaded_models:
                self.lose(self.loaded[0])
        else:
            self.loaded.remove(model)
        self.loaded.append(model)

    def holds(self, now: float, model: str) -> None:
        """The model is loaded: what remains of the runs that waited for it is the run."""
        self.touch(model)
        for run in self.runs.values():
            if run.loading and run.request.model == model:
                run.loaded(now)
        self.fleet.region.hope_changed(self.loaded)

    def lose(self, model: str) -> None:
        """The model is no longer loaded."""
        self.loaded.remove(model)
        del self.fleet.region.holders[model][self]
        if self.fleet.region.settled:
            self.fleet.region.hope_changed([model])

    def __repr__(self) -> str:
        health = "" if self.health is _CLOSED else f", breaker {self.health.replace('_', ' ')}"
        holds = " and ".join(self.loaded) or "nothing"
        return f"{self.name} ({len(self.runs)} of {self.slots} busy, holds {holds}{health})"


class Region:
    __slots__ = ("concurrency", "fleets", "guards", "holders", "name", "outcomes", "room", "settled")

    def __init__(self, name: str, concurrency: int) -> None:
        self.name = name
        self.concurrency = concurrency
        self.room = concurrency
        """How many more may run."""
        self.guards: dict[str, Guard] = {}
        """Of the models that are exclusive or have a limit."""
        self.holders: defaultdict[str, dict[Backend, None]] = defaultdict(dict)
        """Backends by the models that they hold."""
        self.fleets: list[Fleet] = []
        self.outcomes = dict.fromkeys(Outcome, 0)
        self.settled = 0
        """Models of which its fleets know that everybody stands aside."""

    def guard(self, model: ModelSpec, limit: Limit | None) -> None:
        if model.exclusive or limit is not None:
            self.guards[model.name] = Guard(exclusive=model.exclusive, limit=limit)

    def hope_changed(self, models: list[str]) -> None:
        """Those who wait for these models may no longer stand aside, or for another backend."""
        for fleet in self.fleets:
            if fleet.asides.until:
                for model in models:
                    if model in fleet.models:
                        fleet.asides.changed(model)

    def healthy_for(self, model: str) -> bool:
        """A backend with a closed breaker serves the model here."""
        return any(
            backend.health is _CLOSED
            for fleet in self.fleets
            if model in fleet.models
            for backend in fleet.backends
        )

    def __repr__(self) -> str:
        backends = ", ".join(repr(backend) for fleet in self.fleets for backend in fleet.backends)
        running = self.concurrency - self.room
        return f"{self.name} runs {running} of {self.concurrency} on {backends or 'no backend'}"
