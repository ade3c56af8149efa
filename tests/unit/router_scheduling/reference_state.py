"""The state of the scheduler in its plainest form, for the invariants and the reference model.

It shares nothing with the scheduler but the types of facts and decisions, and the moving averages.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from math import inf

from beacon_router.scheduling import (
    BackendSpec,
    Fairness,
    Health,
    LimitName,
    Outcome,
    Policy,
    Request,
    RequestId,
    Start,
    Topology,
    exclusive_limit,
    model_limit,
)
from beacon_router.scheduling.durations import Average, BackendDurations, Durations

SetKey = tuple[str, frozenset[str]]


class Queue(IntEnum):
    GLOBAL_RETRY = 0
    REGION_RETRY = 1
    FRONT = 2
    MAIN = 3


@dataclass(slots=True, eq=False)
class Waiting:
    request: Request
    queue: Queue
    region: str
    """Where it wants to run; in the global retry queue, where it failed."""
    arrived: float
    number: int
    """Of its arrival in this queue."""
    avoided: frozenset[str] = frozenset()
    """Of a global retry: the regions that do not take it at first."""


@dataclass(slots=True, eq=False)
class Running:
    request: Request
    backend: str
    waited: bool
    ends: float
    loading: bool
    queue_region: str
    charged_s: float
    needs_load: bool
    room_at: float
    started: float


@dataclass(slots=True, eq=False)
class Machine:
    spec: BackendSpec
    loads_s: BackendDurations
    runs_s: BackendDurations
    health: Health = Health.CLOSED
    loaded: list[str] = field(default_factory=list)
    probe: RequestId | None = None
    in_line: int | None = None
    """Its place among those with a slot, since when it has had one or last started a run; None without."""
    runs: dict[RequestId, Running] = field(default_factory=dict)
    room_waits: Average = field(default_factory=lambda: Average(1.0))

    @property
    def backend_set(self) -> SetKey:
        return (self.spec.region, self.spec.models)

    @property
    def slots(self) -> int:
        return 0 if self.spec.drain else self.spec.slots

    @property
    def has_slot(self) -> bool:
        if self.health is Health.OPEN or len(self.runs) >= self.slots:
            return False
        return self.health is Health.CLOSED or self.probe is None


class ReferenceState:
    def __init__(self, topology: Topology, policy: Policy) -> None:
        self.policy = policy
        self.topology = topology
        self.models = {model.name: model for model in topology.models}
        self.caps = topology.limits
        self.held = dict(self.caps)
        self.durations = Durations(topology.models)
        self.machines = {spec.name: self._machine(spec) for spec in topology.backends}
        self.concurrency = _concurrency(topology)
        self.waiting: dict[RequestId, Waiting] = {}
        self.running: dict[RequestId, Running] = {}
        self.times: dict[tuple[str, int, str], float] = {}
        """Virtual times by region, rank and user,"""
        self.floors: dict[tuple[str, int], float] = {}
        """and what the tier has reached."""
        self._numbers = 0
        self.requested: list[tuple[str, str]] = []
        """Region and model of every request."""
        for machine in self.machines.values():
            self._line_up(machine)

    def adopts(self, topology: Topology) -> set[RequestId]:
        """Backends that are gone keep their runs. Returns the waiting requests that no backend serves."""
        gone = [one for one in self.machines.values() if one.runs]
        specs = {spec.name: spec for spec in topology.backends}
        for machine in gone:
            specs.setdefault(machine.spec.name, replace(machine.spec, drain=True, leaving=True))
        self.topology = replace(topology, backends=tuple(specs.values()))
        self.models = {model.name: model for model in topology.models}
        self.caps = self.topology.limits
        self.held = dict(self.caps)
        self.concurrency = _concurrency(topology)
        self.durations = Durations(topology.models, self.durations)
        before, self.machines = self.machines, {}
        for name, spec in specs.items():
            machine = self.machines[name] = before.get(name) or self._machine(spec)
            machine.spec = spec
            machine.loads_s = machine.loads_s.on(self.durations.loads)
            machine.runs_s = machine.runs_s.on(self.durations.runs)
            machine.loaded = machine.loaded[-spec.loaded_models :]
            self._line_up(machine)
        unserved = {one.request.id for one in self.waiting.values() if not self._serves(one.request)}
        for request in unserved:
            self.leaves(request)
        return unserved

    def _serves(self, request: Request) -> bool:
        left = [machine.spec for machine in self.machines.values() if not machine.spec.leaving]
        if request.region not in {spec.region for spec in left}:
            return False
        return any(
            request.model in spec.models and (not request.pinned or spec.region == request.region)
            for spec in left
        )

    # Facts

    def joins(
        self, now: float, request: Request, queue: Queue, region: str, avoided: frozenset[str] = frozenset()
    ) -> Waiting:
        self._numbers += 1
        waiting = Waiting(request, queue, region, now, self._numbers, avoided)
        if queue is Queue.MAIN:
            self._activate(region, request)
        self.waiting[request.id] = waiting
        return waiting

    def submitted(self, now: float, request: Request) -> None:
        self.requested.append((request.region, request.model))
        self.joins(now, request, Queue.FRONT if request.front else Queue.MAIN, request.region)

    def retried(self, now: float, request: Request, failed_in: str) -> None:
        queue = Queue.REGION_RETRY if request.pinned else Queue.GLOBAL_RETRY
        avoided = frozenset() if request.pinned else frozenset({failed_in})
        self.requested.append((request.region if request.pinned else failed_in, request.model))
        self.joins(now, request, queue, request.region if request.pinned else failed_in, avoided)

    def moved_to_front(self, request: RequestId) -> None:
        waiting = self.waiting[request]
        if waiting.queue is Queue.MAIN:
            self.leaves(request)
            self.joins(waiting.arrived, waiting.request, Queue.FRONT, waiting.region)

    def leaves(self, request: RequestId) -> Waiting:
        """It no longer waits, and has not started."""
        waiting = self.waiting.pop(request)
        self._forget_idle_tier(waiting.region, waiting.request.rank)
        return waiting

    def starts(self, now: float, start: Start) -> Waiting:
        waiting = self.waiting[start.id]
        machine = self.machines[start.backend]
        model = waiting.request.model
        needs_load = model not in machine.loaded
        others = [one for one in machine.runs.values() if one.loading and one.request.model == model]
        ready = room_at = now
        if needs_load:
            ready = self._room_at(machine, model, now) + machine.loads_s.of(model)
        elif others:
            first = min(others, key=lambda one: one.ends - one.charged_s)
            ready, room_at = max(now, first.ends - first.charged_s), first.room_at
        run_s = machine.runs_s.of_size(model, waiting.request.size)
        run = Running(
            request=waiting.request,
            backend=start.backend,
            waited=needs_load or bool(others),
            ends=ready + run_s,
            loading=needs_load or bool(others),
            queue_region=waiting.region,
            charged_s=run_s,
            needs_load=needs_load,
            room_at=room_at,
            started=now,
        )
        self._charge(waiting.region, waiting.request, run_s)
        del self.waiting[start.id]
        self.running[start.id] = machine.runs[start.id] = run
        if machine.health is Health.HALF_OPEN:
            machine.probe = start.id
        self._touch(machine, model)
        machine.in_line = None
        self._line_up(machine)
        return waiting

    def finished(
        self, now: float, request: RequestId, outcome: Outcome, load_s: float | None, run_s: float | None
    ) -> Running:
        run = self.running.pop(request)
        machine = self.machines[run.backend]
        for other in self._without_room(machine):
            other.room_at = now
        del machine.runs[request]
        if machine.probe == request:
            machine.probe = None
        if load_s is not None and run.needs_load:
            room_s = run.room_at - run.started
            if room_s > machine.loads_s.of(run.request.model):
                machine.room_waits.add(float(load_s >= room_s))
            machine.loads_s.add(run.request.model, load_s - room_s if load_s >= room_s else load_s)
        if outcome is Outcome.COMPLETED and (run_s is not None or not run.waited):
            took_s = now - run.started if run_s is None else run_s
            machine.runs_s.add(run.request.model, took_s, run.request.size)
        if run_s is not None or not run.waited:
            took_s = now - run.started if run_s is None else run_s
        else:
            took_s = run.charged_s if outcome is Outcome.COMPLETED else 0.0
        key = self._share_key(run.queue_region, run.request)
        self.times[key] += (took_s - run.charged_s) / run.request.weight
        self._forget_idle_tier(run.queue_region, run.request.rank)
        self._line_up(machine)
        return run

    def model_loaded(self, now: float, backend: str, model: str) -> None:
        machine = self.machines[backend]
        others = {run.request.model for run in machine.runs.values() if run.request.model != model}
        if model in machine.loaded or len(others) < machine.spec.loaded_models:
            self._touch(machine, model)
        held = self._without_room(machine)
        for run in machine.runs.values():
            if run.loading and run.request.model == model and run not in held:
                run.loading = False
                run.ends = now + machine.runs_s.of_size(model, run.request.size)

    @staticmethod
    def _room_at(machine: Machine, model: str, now: float) -> float:
        """When a model can be loaded: one that is in use is not evicted."""
        others = {run.request.model for run in machine.runs.values()} - {model}
        last_ends = sorted(
            max(now, *(run.ends for run in machine.runs.values() if run.request.model == other))
            for other in others
        )
        excess = len(others) - machine.spec.loaded_models
        return now if excess < 0 else now + machine.room_waits.value * (last_ends[excess] - now)

    @staticmethod
    def _without_room(machine: Machine) -> list[Running]:
        """The runs whose load waits for runs of other models that started earlier."""
        runs = list(machine.runs.values())
        return [
            run
            for place, run in enumerate(runs)
            if run.loading
            and len({one.request.model for one in runs[:place]} - {run.request.model})
            >= machine.spec.loaded_models
        ]

    def model_lost(self, backend: str, model: str | None) -> None:
        machine = self.machines[backend]
        machine.loaded = [held for held in machine.loaded if model is not None and held != model]

    def health_is(self, backend: str, health: Health) -> None:
        machine = self.machines[backend]
        machine.health = health
        machine.probe = None
        self._line_up(machine)

    # Questions

    def demand_for(self, machine: Machine) -> float:
        """Of the model that a load would evict: recent requests, for each machine that has it loaded."""
        region, oldest = machine.spec.region, machine.loaded[0]
        recent = [model for where, model in self.requested if where == region][-256:]
        return recent.count(oldest) / len(self.holders(region, oldest))

    def may_run_in(self, waiting: Waiting, region: str) -> bool:
        model = waiting.request.model
        if waiting.queue is Queue.GLOBAL_RETRY or region == waiting.region:
            return True
        return not waiting.request.pinned and not self.healthy(waiting.region, model)

    def healthy(self, region: str, model: str) -> bool:
        return any(
            machine.health is Health.CLOSED
            and machine.slots > 0
            and machine.spec.region == region
            and model in machine.spec.models
            for machine in self.machines.values()
        )

    def shut(self, region: str, model: str) -> bool:
        """The model is exclusive and runs there, or its limit is used up."""
        names = (exclusive_limit(region, model), model_limit(model))
        return any(self.used(name) >= self.held[name] for name in names if name in self.caps)

    def runs_in(self, region: str) -> list[Running]:
        return [run for run in self.running.values() if self.machines[run.backend].spec.region == region]

    def used(self, limit: LimitName) -> int:
        return sum(limit in self.limits_of(run.backend, run.request.model) for run in self.running.values())

    def regions_of(self, limit: LimitName) -> set[str]:
        """Where runs need a token of the limit."""
        return {
            machine.spec.region
            for machine in self.machines.values()
            if any(limit in self.limits_of(machine.spec.name, model) for model in machine.spec.models)
        }

    def limits_of(self, backend: str, model: str) -> list[LimitName]:
        return list(self.topology.limits_of(self.machines[backend].spec, model))

    def usable(self, machine: Machine) -> bool:
        """Something could start on it: a slot, a token of each of its limits, and room in its region."""
        region = machine.spec.region
        if not machine.has_slot or len(self.runs_in(region)) >= self.concurrency[region]:
            return False
        return all(self.used(limit) < self.held[limit] for limit in self.topology.limits_of(machine.spec))

    def avoids(self, waiting: Waiting, region: str) -> bool:
        """A retry that should not go back to this region yet, if it has not waited for long."""
        model = waiting.request.model
        others = (other for other in self.concurrency if other not in waiting.avoided)
        return region in waiting.avoided and any(self.healthy(other, model) for other in others)

    def place_of(self, waiting: Waiting) -> tuple[int, float, int, int]:
        """By tier, then virtual time of the user, then the user's oldest request, then arrival."""
        request = waiting.request
        if waiting.queue is not Queue.MAIN or self.policy.fairness is Fairness.FIFO:
            return (request.rank, 0.0, 0, waiting.number)
        key = self._share_key(waiting.region, request)
        lag = self.times[key] - self.floors.get(key[:2], 0.0)
        return (request.rank, lag, self._oldest(key), waiting.number)

    def _oldest(self, key: tuple[str, int, str]) -> int:
        return min(
            one.number
            for one in self.waiting.values()
            if one.queue is Queue.MAIN and self._share_key(one.region, one.request) == key
        )

    def firsts(self, waiting: Iterable[Waiting]) -> dict[int, Waiting]:
        """Of each tier the first of these in the main queue."""
        found: dict[int, Waiting] = {}
        for one in sorted((one for one in waiting if one.queue is Queue.MAIN), key=self.place_of):
            found.setdefault(one.request.rank, one)
        return found

    def starving(self, firsts: dict[int, Waiting], now: float) -> list[int]:
        bounds = [tier.starvation_bound_s for tier in self.policy.tiers]
        return [rank for rank, first in firsts.items() if first.arrived + bounds[rank] <= now]

    def runnable(self, machine: Machine) -> list[Waiting]:
        """All that this machine could run now, if it had a slot."""
        region = machine.spec.region
        return [
            one
            for one in self.waiting.values()
            if one.request.model in machine.spec.models
            and self.may_run_in(one, region)
            and not self.shut(region, one.request.model)
        ]

    def holders(self, region: str, model: str) -> list[Machine]:
        return [
            machine
            for machine in self.machines.values()
            if machine.spec.region == region and model in machine.loaded
        ]

    def _share_key(self, region: str, request: Request) -> tuple[str, int, str]:
        return (region, request.rank, request.user)

    def _activate(self, region: str, request: Request) -> None:
        """A user without waiting or running requests starts at the floor."""
        key = self._share_key(region, request)
        if key not in self._active():
            self.times[key] = max(self.floors.get(key[:2], 0.0), self.times.get(key, 0.0))

    def _active(self) -> set[tuple[str, int, str]]:
        """Users with waiting or running requests."""
        waits = (one for one in self.waiting.values() if one.queue is Queue.MAIN)
        return {self._share_key(one.region, one.request) for one in waits} | {
            self._share_key(run.queue_region, run.request) for run in self.running.values()
        }

    def _forget_idle_tier(self, region: str, rank: int) -> None:
        """Without active users of a tier all are equal again."""
        if not any(key[:2] == (region, rank) for key in self._active()):
            self.times = {key: time for key, time in self.times.items() if key[:2] != (region, rank)}

    def _charge(self, region: str, request: Request, run_s: float) -> None:
        """The floor is the least virtual time of the users with waiting requests, this one included."""
        key = self._share_key(region, request)
        self._activate(region, request)
        waiting = [
            self.times[other]
            for one in self.waiting.values()
            if one.queue is Queue.MAIN and (other := self._share_key(one.region, one.request))[:2] == key[:2]
        ]
        if waiting:
            self.floors[key[:2]] = max(self.floors.get(key[:2], 0.0), min(waiting))
        self.times[key] += run_s / request.weight

    def _machine(self, spec: BackendSpec) -> Machine:
        return Machine(spec, BackendDurations(self.durations.loads), BackendDurations(self.durations.runs))

    def _line_up(self, machine: Machine) -> None:
        """Last of those with a free slot, if it has one and is not among them."""
        if not machine.has_slot:
            machine.in_line = None
        elif machine.in_line is None:
            self._numbers += 1
            machine.in_line = self._numbers

    @staticmethod
    def _touch(machine: Machine, model: str) -> None:
        machine.loaded = [held for held in machine.loaded if held != model] + [model]
        machine.loaded = machine.loaded[-machine.spec.loaded_models :]


def _concurrency(topology: Topology) -> dict[str, float]:
    return {
        region.name: inf if region.concurrency is None else region.concurrency for region in topology.regions
    }
