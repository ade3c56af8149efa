"""Runs a workload through a policy in virtual time and writes down what happened to each request."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
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
class Seen:
    """What one request went through."""

    arrival: Arrival
    started_s: float = -1.0
    load_s: float = 0.0
    reason: str = ""
    eta: Eta | None = None

    @property
    def wait_s(self) -> float:
        return self.started_s - self.arrival.arrival_s

    @property
    def ended_s(self) -> float:
        return self.started_s + self.load_s + self.arrival.run_s


class Simulator:
    def __init__(self, topology: Topology, policy: PolicyUnderTest, *, foretell: bool = True) -> None:
        self._policy = policy
        self._foretell = foretell
        self._loads = {model.name: model.expected_load_s for model in topology.models}
        self._loaded: dict[str, str] = {}
        self._events: list[tuple[float, int, str, str]] = []
        self._number = 0
        self._arrived = 0
        self._wake: float | None = None
        self._backend_of: dict[str, str] = {}
        self.requests: dict[str, Seen] = {}

    def run(self, arrivals: Sequence[Arrival]) -> list[Seen]:
        """Everything arrives, everything runs to its end."""
        for arrival in arrivals:
            self.arrive(arrival)
        self.finish()
        return list(self.requests.values())

    def finish(self) -> None:
        """Nobody comes any more."""
        self._until(float("inf"))

    def twins(self) -> "Iterator[Simulator]":
        """Copies that play on by themselves, as many as are taken; what has ended is not copied."""
        running = {subject for _, _, kind, subject in self._events if kind != "wake"}
        live = {name: seen for name, seen in self.requests.items() if seen.started_s < 0 or name in running}
        everybody, self.requests = self.requests, live
        try:
            image = pickle.dumps(self)
        finally:
            self.requests = everybody
        while True:
            twin = pickle.loads(image)
            assert isinstance(twin, Simulator)
            yield twin

    def redraw(self, now: float, run_s: Callable[[str, float], float]) -> None:
        """Another run time for all who wait or run, by their model and how long they have run by now."""
        for seen in self.requests.values():
            began = now if seen.started_s < 0 else min(now, seen.started_s + seen.load_s)
            seen.arrival = replace(seen.arrival, run_s=run_s(seen.arrival.model, now - began))
        self._events = [
            (self.requests[subject].ended_s if kind == "finished" else at, number, kind, subject)
            for at, number, kind, subject in self._events
        ]
        heapify(self._events)

    def arrive(self, arrival: Arrival) -> RequestId:
        """Everything up to the moment of this arrival happens, then it arrives."""
        now = arrival.arrival_s
        self._until(now)
        self._arrived += 1
        request = RequestId(f"r{self._arrived}")
        self.requests[request] = Seen(arrival)
        asked = Request(request, arrival.model, arrival.region, arrival.rank, size=arrival.size)
        self._policy.submit(now, asked)
        self._carry_out(now)
        if self._foretell:
            self.requests[request].eta = self._policy.eta(now, request)
        return request

    def _until(self, moment: float) -> None:
        while self._events and self._events[0][0] <= moment:
            now, _, kind, subject = heappop(self._events)
            if kind == "wake":
                self._carry_out(now)
                continue
            seen = self.requests[subject]
            if kind == "loaded":
                self._policy.model_loaded(now, self._backend_of[subject], seen.arrival.model)
                continue
            self._policy.finished(
                now,
                RequestId(subject),
                Outcome.COMPLETED,
                load_s=seen.load_s or None,
                run_s=seen.arrival.run_s,
            )
            self._carry_out(now)

    def _carry_out(self, now: float) -> None:
        for decision in self._policy.next(now):
            if isinstance(decision, Expired):
                continue
            self._start(now, decision)
        wake = self._policy.next_wakeup()
        if wake is not None and wake != self._wake:
            self._wake = wake
            self._push(wake, "wake", "")

    def _start(self, now: float, start: Start) -> None:
        seen = self.requests[start.id]
        assert seen.started_s < 0
        seen.started_s = now
        seen.reason = start.reason
        if self._loaded.get(start.backend) != seen.arrival.model:
            assert start.needs_load
            seen.load_s = self._loads[seen.arrival.model]
            self._loaded[start.backend] = seen.arrival.model
            self._backend_of[start.id] = start.backend
            self._push(now + seen.load_s, "loaded", start.id)
        self._push(seen.ended_s, "finished", start.id)

    def _push(self, at: float, kind: str, subject: str) -> None:
        self._number += 1
        heappush(self._events, (at, self._number, kind, subject))
