"""Runs a workload through a policy in virtual time and records what happens to each request."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Protocol

from beacon_router.scheduling import Decision, Eta, Expired, Outcome, Request, RequestId, Start, Topology
from benchmarks.scheduling.workload import Arrival


class PolicyUnderTest(Protocol):
    def submit(self, now: float, request: Request) -> None: ...
    def next(self, now: float) -> list[Decision]: ...
    def next_wakeup(self) -> float | None: ...
    def eta(self, now: float, request: RequestId) -> Eta | None: ...
    def model_loaded(self, now: float, backend: str, model: str) -> None: ...
    def finished(
        self, now: float, request: RequestId, outcome: Outcome, *, load_s: float | None, run_s: float | None
    ) -> None: ...


@dataclass(slots=True)
class RequestRecord:
    arrival: Arrival
    backend: str = ""
    started_s: float = -1.0
    load_s: float = 0.0
    eta: Eta | None = None

    @property
    def wait_s(self) -> float:
        return self.started_s - self.arrival.arrival_s

    @property
    def ended_s(self) -> float:
        return self.started_s + self.load_s + self.arrival.run_s


class Simulator:
    def __init__(self, topology: Topology, policy: PolicyUnderTest, *, estimate: bool = False) -> None:
        self._policy = policy
        self._estimate = estimate
        self._loads = {model.name: model.expected_load_s for model in topology.models}
        self._loaded: dict[str, str] = {}
        self._free_slots = {backend.name: backend.slots for backend in topology.backends}
        self._events: list[tuple[float, int, str, RequestId]] = []
        self._number = 0
        self._wake: float | None = None
        self._records: dict[RequestId, RequestRecord] = {}
        self._started: list[RequestRecord] = []

    def run(self, arrivals: Sequence[Arrival]) -> list[RequestRecord]:
        """Run all arrivals to their end; returns them in the order of the starts."""
        for number, arrival in enumerate(arrivals, start=1):
            self._run_until(arrival.arrival_s)
            self._arrive(RequestId(f"r{number}"), arrival)
        self._run_until(inf)
        if len(self._started) < len(arrivals):
            raise AssertionError(f"{len(arrivals) - len(self._started)} requests never started")
        return self._started

    def _arrive(self, name: RequestId, arrival: Arrival) -> None:
        now = arrival.arrival_s
        self._records[name] = RequestRecord(arrival)
        self._policy.submit(
            now,
            Request(
                name, arrival.model, arrival.region, arrival.rank, size=arrival.size, user=arrival.tenant
            ),
        )
        self._dispatch(now)
        if self._estimate:
            self._records[name].eta = self._policy.eta(now, name)

    def _run_until(self, moment: float) -> None:
        while self._events and self._events[0][0] <= moment:
            now, _, kind, name = heappop(self._events)
            if kind == "wake":
                self._dispatch(now)
                continue
            record = self._records[name]
            if kind == "loaded":
                self._policy.model_loaded(now, record.backend, record.arrival.model)
                continue
            self._free_slots[record.backend] += 1
            self._policy.finished(
                now, name, Outcome.COMPLETED, load_s=record.load_s or None, run_s=record.arrival.run_s
            )
            self._dispatch(now)

    def _dispatch(self, now: float) -> None:
        for decision in self._policy.next(now):
            if not isinstance(decision, Expired):
                self._start(now, decision)
        wake = self._policy.next_wakeup()
        if wake is not None and wake != self._wake:
            self._wake = wake
            self._push(wake, "wake", RequestId(""))

    def _start(self, now: float, start: Start) -> None:
        record = self._records[start.id]
        if record.started_s >= 0 or not self._free_slots[start.backend]:
            raise AssertionError(f"{start.id} started twice, or {start.backend} is busy")
        self._free_slots[start.backend] -= 1
        record.started_s, record.backend = now, start.backend
        self._started.append(record)
        if self._loaded.get(start.backend) != record.arrival.model:
            assert start.needs_load
            record.load_s = self._loads[record.arrival.model]
            self._loaded[start.backend] = record.arrival.model
            self._push(now + record.load_s, "loaded", start.id)
        self._push(record.ended_s, "finished", start.id)

    def _push(self, at: float, kind: str, name: RequestId) -> None:
        self._number += 1
        heappush(self._events, (at, self._number, kind, name))
