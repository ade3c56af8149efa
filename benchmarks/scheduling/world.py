"""What is true, kept in the plainest way: lists of who waits, who runs, and how the machines stand.

The invariants and the reference model are both written on it. It shares nothing with the scheduler but the
shapes of facts and decisions, and the moving averages.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from math import fsum, inf

from beacon_router.scheduling import (
    BackendSpec,
    Health,
    LimitName,
    Outcome,
    Policy,
    Request,
    RequestId,
    Start,
    Topology,
    model_limit,
)
from beacon_router.scheduling.averages import Durations, OwnAverages

LaneKey = tuple["Queue", str, str, int, bool]
FleetKey = tuple[str, frozenset[str]]


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
    allowance: tuple[float, float] | None = None
    """Once it has stood aside: until when it may, and how much those may weigh who wait for its model."""

    @property
    def lane(self) -> LaneKey:
        rank = self.request.rank if self.queue is Queue.MAIN else 0
        return (self.queue, self.region, self.request.model, rank, self.request.pinned)

    @property
    def place(self) -> tuple[int, int]:
        """By rank, then arrival."""
        return (self.request.rank, self.number)


@dataclass(slots=True, eq=False)
class Running:
    request: Request
    backend: str
    began: float
    ends: float
    loading: bool


@dataclass(slots=True, eq=False)
class Machine:
    spec: BackendSpec
    loads_s: OwnAverages
    runs_s: OwnAverages
    health: Health = Health.CLOSED
    loaded: list[str] = field(default_factory=list)
    probe: RequestId | None = None
    rested: float = -inf
    """When a run of it last ended."""
    in_line: int | None = None
    """Its place among those with a slot, since when it has had one or last started a run; None without."""
    runs: dict[RequestId, Running] = field(default_factory=dict)

    @property
    def fleet(self) -> FleetKey:
        return (self.spec.region, self.spec.models)

    @property
    def has_slot(self) -> bool:
        if self.health is Health.OPEN or len(self.runs) >= self.spec.slots:
            return False
        return self.health is Health.CLOSED or self.probe is None


class World:
    def __init__(self, topology: Topology, policy: Policy) -> None:
        self.policy = policy
        self.topology = topology
        self.models = {model.name: model for model in topology.models}
        self.caps = topology.limits
        self.held = dict(self.caps)
        self.durations = Durations(topology.models)
        self.machines = {spec.name: self._machine(spec) for spec in topology.backends}
        self.concurrency = {
            region.name: sum(spec.slots for spec in topology.backends if spec.region == region.name)
            if region.concurrency is None
            else region.concurrency
            for region in topology.regions
        }
        self.waiting: dict[RequestId, Waiting] = {}
        self.running: dict[RequestId, Running] = {}
        self._lanes: dict[str, dict[LaneKey, dict[RequestId, Waiting]]] = {model: {} for model in self.models}
        self._numbers = 0
        for machine in self.machines.values():
            self._line_up(machine)

    # Facts

    def joins(self, now: float, request: Request, queue: Queue, region: str) -> Waiting:
        self._numbers += 1
        waiting = Waiting(request, queue, region, now, self._numbers)
        self.waiting[request.id] = waiting
        self._lane_of(waiting)[request.id] = waiting
        return waiting

    def submitted(self, now: float, request: Request) -> None:
        self.joins(now, request, Queue.FRONT if request.front else Queue.MAIN, request.region)

    def retried(self, now: float, request: Request, failed_in: str) -> None:
        queue = Queue.REGION_RETRY if request.pinned else Queue.GLOBAL_RETRY
        self.joins(now, request, queue, request.region if request.pinned else failed_in)

    def moved_to_front(self, request: RequestId) -> None:
        waiting = self.waiting[request]
        if waiting.queue is Queue.MAIN:
            self.leaves(request)
            moved = self.joins(waiting.arrived, waiting.request, Queue.FRONT, waiting.region)
            moved.allowance = waiting.allowance

    def leaves(self, request: RequestId) -> Waiting:
        waiting = self.waiting.pop(request)
        del self._lane_of(waiting)[request]
        return waiting

    def starts(self, now: float, start: Start) -> Waiting:
        waiting = self.leaves(start.id)
        machine = self.machines[start.backend]
        model = waiting.request.model
        loading = model not in machine.loaded
        run_s = machine.runs_s.of_size(model, waiting.request.size)
        ends = now + run_s + (machine.loads_s.of(model) if loading else 0.0)
        run = Running(waiting.request, start.backend, now, ends, loading)
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
        del machine.runs[request]
        machine.rested = now
        if machine.probe == request:
            machine.probe = None
        if load_s is not None:
            machine.loads_s.add(run.request.model, load_s)
        if outcome is Outcome.COMPLETED and (run_s is not None or not run.loading):
            took_s = now - run.began if run_s is None else run_s
            machine.runs_s.add(run.request.model, took_s, run.request.size)
        self._line_up(machine)
        return run

    def model_loaded(self, now: float, backend: str, model: str) -> None:
        machine = self.machines[backend]
        self._touch(machine, model)
        for run in machine.runs.values():
            if run.loading and run.request.model == model:
                run.loading = False
                run.began = now
                run.ends = now + machine.runs_s.of_size(model, run.request.size)

    def model_lost(self, backend: str, model: str | None) -> None:
        machine = self.machines[backend]
        machine.loaded = [held for held in machine.loaded if model is not None and held != model]

    def health_is(self, backend: str, health: Health) -> None:
        machine = self.machines[backend]
        machine.health = health
        machine.probe = None
        self._line_up(machine)

    # Questions

    def heads(self, machine: Machine) -> list[Waiting]:
        """The first of each lane that this machine could run now, if it had a slot."""
        region = machine.spec.region
        return [
            head
            for model in sorted(machine.spec.models)
            if not self.shut(region, model)
            for lane in self._lanes[model].values()
            if lane and self.may_run_in((head := next(iter(lane.values()))), region)
        ]

    def may_run_in(self, waiting: Waiting, region: str) -> bool:
        model = waiting.request.model
        if waiting.queue is Queue.GLOBAL_RETRY:
            return region != waiting.region or not any(
                self.healthy(other, model) for other in self.concurrency if other != region
            )
        if region == waiting.region:
            return True
        return not waiting.request.pinned and not self.healthy(waiting.region, model)

    def healthy(self, region: str, model: str) -> bool:
        return any(
            machine.health is Health.CLOSED and machine.spec.region == region and model in machine.spec.models
            for machine in self.machines.values()
        )

    def shut(self, region: str, model: str) -> bool:
        """The model is exclusive and runs there, or its own limit is used up."""
        spec = self.models[model]
        if spec.exclusive and any(run.request.model == model for run in self.runs_in(region)):
            return True
        return spec.limit is not None and self.used(model_limit(model)) >= self.held[model_limit(model)]

    def runs_in(self, region: str) -> list[Running]:
        return [run for run in self.running.values() if self.machines[run.backend].spec.region == region]

    def used(self, limit: LimitName) -> int:
        return sum(limit in self.limits_of(run.backend, run.request.model) for run in self.running.values())

    def limits_of(self, backend: str, model: str) -> list[LimitName]:
        names = [*self.machines[backend].spec.limits, model_limit(model)]
        return [name for name in names if name in self.caps]

    def usable(self, machine: Machine) -> bool:
        """Something could start on it: a slot, a token of each of its limits, and room in its region."""
        region = machine.spec.region
        if not machine.has_slot or len(self.runs_in(region)) >= self.concurrency[region]:
            return False
        return all(self.used(limit) < self.held[limit] for limit in machine.spec.limits)

    def overdue(self, waiting: Waiting, now: float) -> bool:
        if waiting.queue is not Queue.MAIN:
            return False
        return self._remaining(waiting, now) <= 0

    def endangers(
        self, machine: Machine, lane_head: Waiting, first: Waiting, batch_left: int, now: float
    ) -> bool:
        """Whether a batch of this lane could keep the first of the line waiting past its bound."""
        length = min(batch_left, len(self._lane_of(lane_head)))
        batch_s = length * machine.runs_s.of(lane_head.request.model)
        return self._remaining(first, now) < batch_s + machine.loads_s.of(first.request.model)

    def crowd(self, machine: Machine, model: str) -> tuple[int, float]:
        """What those who wait for the model and may run there gain in weight every second, and from when."""
        waiting = [
            (self.policy.tiers[head.request.rank].weight * len(lane), head.arrived)
            for lane in self._lanes[model].values()
            if lane and (head := next(iter(lane.values()))).queue is Queue.MAIN
            if self.may_run_in(head, machine.spec.region)
        ]
        return sum(weight for weight, _ in waiting), fsum(weight * arrived for weight, arrived in waiting)

    def holders(self, region: str, model: str) -> list[Machine]:
        return [
            machine
            for machine in self.machines.values()
            if machine.spec.region == region and model in machine.loaded
        ]

    def in_lanes(self) -> Iterator[list[Waiting]]:
        """Who waits, lane by lane, in order."""
        for lanes in self._lanes.values():
            for lane in lanes.values():
                yield list(lane.values())

    def _remaining(self, head: Waiting, now: float) -> float:
        return head.arrived + self.policy.tiers[head.request.rank].starvation_bound_s - now

    def _lane_of(self, waiting: Waiting) -> dict[RequestId, Waiting]:
        return self._lanes[waiting.request.model].setdefault(waiting.lane, {})

    def _machine(self, spec: BackendSpec) -> Machine:
        return Machine(spec, OwnAverages(self.durations.loads), OwnAverages(self.durations.runs))

    def _line_up(self, machine: Machine) -> None:
        """Behind the others with a slot, if it has one and is not among them."""
        if not machine.has_slot:
            machine.in_line = None
        elif machine.in_line is None:
            self._numbers += 1
            machine.in_line = self._numbers

    @staticmethod
    def _touch(machine: Machine, model: str) -> None:
        machine.loaded = [held for held in machine.loaded if held != model] + [model]
        machine.loaded = machine.loaded[-machine.spec.loaded_models :]
