"""What the policy would start, if runs took their expected time and the last arrivals came again."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from math import inf

from beacon_router.scheduling import transitions
from beacon_router.scheduling.decisions import Health, Request, RequestId
from beacon_router.scheduling.fair_share import FairShares
from beacon_router.scheduling.forecast.fork import ForkedDomain
from beacon_router.scheduling.policy import Choice
from beacon_router.scheduling.state.backend_state import RunningRequest
from beacon_router.scheduling.state.domains import Arrival, CompetitionDomain
from beacon_router.scheduling.state.request_queue import QueuedRequest
from beacon_router.scheduling.state.topology import LimitName
from beacon_router.scheduling.transitions import choose_among

MAX_DISPATCHES = 500
"""A simulation ends after so many; later starts are expected at the same pace."""
_MAX_EVENTS = 5 * MAX_DISPATCHES
_GROUP = 16
"""Past arrivals whose rate is taken together."""
_MIN_ARRIVALS = 8
"""Fewer past arrivals say nothing of the next ones."""
_SIMULATED_SEQ = 1 << 60
"""Simulated arrivals are numbered from here on,"""
_FIRST_PROBE_SEQ = 1 << 59
"""and probes from here on: behind all that waits, and before all that arrives later."""
NewRequest = tuple[str, int, str]
"""Model, rank and user of a request that is imagined to arrive now; without a user it is a new user's."""
_Event = RunningRequest | Arrival | None


class PolicySimulation:
    """Its cost depends on the number of queues, users and dispatches, not on the length of the queues."""

    def __init__(
        self,
        now: float,
        domain: CompetitionDomain,
        shares: Mapping[str, tuple[FairShares, ...]],
        last_seq: int,
        *,
        probes: Sequence[NewRequest] = (),
        granted: Collection[LimitName] = (),
    ) -> None:
        """`probes` are imagined requests: their starts are recorded, and take no slot. `granted` are limits
        of which more tokens are expected, up to their caps."""
        self.made_at = now
        self.ended_at = now
        self.last_seq = last_seq
        """The newest request that takes part."""
        self.changes = domain.changes
        self.starts: dict[RequestId, float] = {}
        """The moments at which waiting requests start, in this order."""
        self._started: Counter[str] = Counter()
        """The number of them by model."""
        self.dispatches = 0
        self.probed: dict[NewRequest, float] = {}
        """The moments at which probes would start."""
        self._fork = ForkedDomain(domain, shares, granted)
        self._probes = {self._probe(now, place, probe): probe for place, probe in enumerate(probes, 1)}
        self._events: list[tuple[float, int, _Event]] = []
        self._pushed = 0
        self._waiting = sum(queue.size for queue in domain.queues())
        self._arrivals = repeated(domain, now)
        self._run(now)

    def later(self, ahead: int, model: str | None = None) -> float:
        """When a request starts that the simulation did not reach, with so many waiting ones before it."""
        return max(self.ended_at, self.at_pace(ahead, model))

    def at_pace(self, ahead: int, model: str | None = None) -> float:
        """When a request starts that arrived after the simulation was made."""
        return self.made_at + self.pace_s(model) * (ahead + 1)

    def pace_s(self, model: str | None = None) -> float:
        """Between two starts of requests that wait now, of one model or of all."""
        starts = len(self.starts) if model is None else self._started[model]
        return (self.ended_at - self.made_at) / max(1, starts)

    def _run(self, now: float) -> None:
        for each in self._fork.sets:
            for backend in each.backends:
                for run, ends in backend.likely_ends(now).items():
                    run.ends = ends
                    self._push(ends, run)
        self._dispatch(now)
        self._next_arrival()
        while self._events and self._pushed < _MAX_EVENTS and self._goes_on():
            now, _, event = heappop(self._events)
            if isinstance(event, RunningRequest):
                self._end(now, event)
                if event.request.following:
                    self._follow(now, event)
            elif event is not None:
                self._arrive(now, event)
            self._dispatch(now)
        self.ended_at = now

    def _goes_on(self) -> bool:
        """Until all that wait have started, probes included."""
        return (self._waiting > 0 or len(self._probes) > 0) and self.dispatches < MAX_DISPATCHES

    def _dispatch(self, now: float) -> None:
        while self.dispatches < MAX_DISPATCHES and (choice := choose_among(self._fork.sets, now)) is not None:
            probe = self._probes.pop(choice.queued.request.id, None)
            if probe is None:
                self._start(now, choice)
            else:
                self.probed[probe] = now
                choice.queue.remove(choice.queued)
        wake_at = min((each.wake_at for each in self._fork.sets), default=inf)
        if wake_at < inf:
            self._push(wake_at, None)

    def _start(self, now: float, choice: Choice) -> None:
        self.dispatches += 1
        request, queue = choice.queued.request, choice.queue
        number = _SIMULATED_SEQ + self.dispatches
        run = transitions.start(now, choice, number, self._fork.shares_of(queue.region, request.rank))
        if choice.queued.seq < _SIMULATED_SEQ:
            self.starts[request.id] = now
            self._started[queue.model] += 1
            self._waiting -= 1
        self._push(run.ends, run)

    def _end(self, now: float, run: RunningRequest) -> None:
        """The run that a half-open breaker let through is expected to succeed."""
        if run.backend.health is Health.HALF_OPEN:
            run.backend.health, run.backend.probe = Health.CLOSED, None
        transitions.end(now, run)

    def _probe(self, now: float, place: int, probe: NewRequest) -> RequestId:
        model, rank, user = probe
        name = f"probe {place}"
        queue = self._fork.new_queue(model, rank)
        request = Request(RequestId(name), model, queue.region, rank, user=user or name)
        queue.push(QueuedRequest(request, _FIRST_PROBE_SEQ + place, now, queue))
        return request.id

    def _arrive(self, now: float, arrival: Arrival) -> None:
        _, request, live = arrival
        queue, number = self._fork.queue(live), self._next_number()
        again = replace(request, id=RequestId(f"arrival {number}"), following=0)
        queue.push(QueuedRequest(again, number, now, queue))
        self._next_arrival()

    def _follow(self, now: float, run: RunningRequest) -> None:
        """The caller sends the next execution of the job."""
        queue = run.queue if run.queue.forked else self._fork.queue(run.queue)
        number = self._next_number()
        request = run.request
        again = replace(request, id=RequestId(f"following {number}"), following=request.following - 1)
        queue.push(QueuedRequest(again, number, now, queue))

    def _next_number(self) -> int:
        """Of a simulated request."""
        self._pushed += 1
        return _SIMULATED_SEQ + self._pushed

    def _next_arrival(self) -> None:
        arrival = next(self._arrivals, None)
        if arrival is not None:
            self._push(arrival[0], arrival)

    def _push(self, at: float, event: _Event) -> None:
        self._pushed += 1
        heappush(self._events, (at, self._pushed, event))


def repeated(domain: CompetitionDomain, now: float) -> Iterator[Arrival]:
    """The past arrivals once more, the latest first: a load continues for as long as it has lasted."""
    past = [arrival for arrival in reversed(domain.arrivals) if arrival[0] < now]
    if len(past) < _MIN_ARRIVALS:
        return
    at = end = now
    for first in range(0, len(past), _GROUP):
        group = past[first : first + _GROUP]
        begin = group[-1][0]
        for _, request, queue in group:
            at += (end - begin) / len(group)
            yield at, request, queue
        end = begin
