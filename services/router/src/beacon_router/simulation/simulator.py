"""Runs requests through the scheduler in virtual time and records what happens to each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from heapq import heappop, heappush
from math import inf

from beacon_router.scheduling import Expired, Outcome, Policy, Request, RequestId, Scheduler, Start, Topology
from beacon_router.simulation.load import Arrival, LoadError


@dataclass(slots=True)
class SimulatedRun:
    """A started request. `load_s` is the time until its model was loaded."""

    arrival: Arrival
    backend: str
    started_s: float
    load_s: float
    caused_load: bool

    @property
    def wait_s(self) -> float:
        return self.started_s - self.arrival.arrival_s

    @property
    def ended_s(self) -> float:
        return self.started_s + self.load_s + self.arrival.run_s


class _Kind(Enum):
    WAKE = auto()
    LOADED = auto()
    FINISHED = auto()


class LoadSimulation:
    """One load on one topology. Loads take the expected time of the model, runs that of the request."""

    def __init__(self, topology: Topology, policy: Policy) -> None:
        self._scheduler = Scheduler(topology, policy)
        self._expected_load_s = {model.name: model.expected_load_s for model in topology.models}
        self._loaded_models = {backend.name: backend.loaded_models for backend in topology.backends}
        self._loaded_at: dict[tuple[str, str], float] = {}
        self._events: list[tuple[float, int, _Kind, RequestId]] = []
        self._event_number = 0
        self._wakeup_s: float | None = None
        self._waiting: dict[RequestId, Arrival] = {}
        self._running: dict[RequestId, SimulatedRun] = {}
        self._runs: list[SimulatedRun] = []

    def run(self, arrivals: Sequence[Arrival]) -> list[SimulatedRun]:
        """All requests, in the order in which they started. LoadError if some can never start."""
        for number, arrival in enumerate(arrivals, start=1):
            self._run_until(arrival.arrival_s)
            request = RequestId(f"r{number}")
            self._waiting[request] = arrival
            self._scheduler.submit(
                arrival.arrival_s,
                Request(request, arrival.model, arrival.region, arrival.rank, user=arrival.user),
            )
            self._dispatch(arrival.arrival_s)
        self._run_until(inf)
        if self._waiting:
            models = ", ".join(sorted({arrival.model for arrival in self._waiting.values()}))
            raise LoadError(f"{len(self._waiting)} requests never start, no slot is open to them: {models}")
        return self._runs

    def _run_until(self, moment: float) -> None:
        while self._events and self._events[0][0] <= moment:
            now, _, kind, request = heappop(self._events)
            match kind:
                case _Kind.LOADED:
                    run = self._running[request]
                    self._scheduler.model_loaded(now, run.backend, run.arrival.model)
                case _Kind.FINISHED:
                    run = self._running.pop(request)
                    self._scheduler.finished(
                        now, request, Outcome.COMPLETED, load_s=run.load_s or None, run_s=run.arrival.run_s
                    )
                case _Kind.WAKE:
                    self._wakeup_s = None
            self._dispatch(now)

    def _dispatch(self, now: float) -> None:
        for decision in self._scheduler.next(now):
            if not isinstance(decision, Expired):  # simulated requests have no deadline
                self._start(now, decision)
        wakeup_s = self._scheduler.next_wakeup()
        if wakeup_s is not None and wakeup_s != self._wakeup_s:
            self._wakeup_s = wakeup_s
            self._add_event(wakeup_s, _Kind.WAKE, RequestId(""))

    def _start(self, now: float, start: Start) -> None:
        arrival = self._waiting.pop(start.id)
        key = (start.backend, arrival.model)
        loaded_at = self._loaded_at.get(key, -inf)
        caused_load = start.needs_load and loaded_at <= now and self._expected_load_s[arrival.model] > 0
        if caused_load:
            room_at = self._room_at(now, start.backend, arrival.model)
            loaded_at = self._loaded_at[key] = room_at + self._expected_load_s[arrival.model]
        run = SimulatedRun(arrival, start.backend, now, max(0.0, loaded_at - now), caused_load)
        self._running[start.id] = run
        self._runs.append(run)
        if caused_load:
            self._add_event(loaded_at, _Kind.LOADED, start.id)
        self._add_event(run.ended_s, _Kind.FINISHED, start.id)

    def _room_at(self, now: float, backend: str, model: str) -> float:
        """When the runs of other models leave room for a load: a model in use is not evicted."""
        in_use: dict[str, float] = {}
        for run in self._running.values():
            if run.backend == backend and run.arrival.model != model:
                in_use[run.arrival.model] = max(run.ended_s, in_use.get(run.arrival.model, now))
        excess = len(in_use) - self._loaded_models[backend]
        return now if excess < 0 else sorted(in_use.values())[excess]

    def _add_event(self, at: float, kind: _Kind, request: RequestId) -> None:
        self._event_number += 1
        heappush(self._events, (at, self._event_number, kind, request))
