"""Everything that waits: by id, by lane, by deadline, by place in its line."""

from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final

from beacon_router.scheduling.decisions import Request, RequestId
from beacon_router.scheduling.floor import Floor
from beacon_router.scheduling.lanes import Lane, Queue, Ticket
from beacon_router.scheduling.line import Line

_SLACK = 64

_GLOBAL_RETRY: Final = Queue.GLOBAL_RETRY
_MAIN: Final = Queue.MAIN
"""Asking an enum for a member costs as much as a call, and these are asked for in every decision."""


class Queues:
    __slots__ = (
        "_floor",
        "_lanes",
        "_of_model",
        "before_main",
        "deadlines",
        "global_retry",
        "last",
        "tickets",
    )

    def __init__(self, floor: Floor) -> None:
        self.tickets: dict[RequestId, Ticket] = {}
        self.global_retry = Line()
        self.before_main: Counter[tuple[str, int]] = Counter()
        """By region and rank, who waits in its retry queue and its paid front: lanes that mix the ranks."""
        self._floor = floor
        self._lanes: dict[tuple[Queue, str, str, int, bool], Lane] = {}
        self._of_model: dict[str, list[Lane]] = {model: [] for model in floor.models}
        self.last = 0
        self.deadlines: list[tuple[float, int, Ticket]] = []

    def join(self, now: float, request: Request, queue: Queue, region: str) -> Lane:
        """Wait at the end of a queue: in this lane, in which something may start."""
        lane = self._lane(queue, region, request)
        self.last += 1
        ticket = self.tickets[request.id] = Ticket(request, self.last, now, lane)
        if request.start_by is not None:
            self._add_deadline(request.start_by, ticket)
        lane.pool.arrived.append((now, lane))
        self._enter(ticket, lane)
        return lane

    def to_front(self, ticket: Ticket, lane: Lane) -> Lane:
        """Leave the main queue for the paid front of the same region; how long it has waited is kept."""
        self.leave(ticket, lane)
        self.tickets[ticket.request.id] = ticket
        self.last += 1
        ticket.seq = self.last
        ticket.lane = front = self._lane(Queue.FRONT, lane.region, ticket.request)
        self._enter(ticket, front)
        return front

    def leave(self, ticket: Ticket, lane: Lane) -> None:
        """Forget a ticket, wherever in its lane it waits."""
        del self.tickets[ticket.request.id]
        lane.line.leave(ticket.place)
        for fleet in lane.fleets:
            fleet.waiting -= 1
            if fleet.asides.until:
                fleet.asides.changed(lane.model)
        if lane.queue is _MAIN:
            lane.pool.changes += 1
        else:
            self._count_express(ticket, lane, -1)
        entry = lane.entry
        if lane.remove(ticket):
            for heads in lane.heads:
                heads.replace(entry, lane)

    def ahead(self, ticket: Ticket, lane: Lane) -> int:
        """How many go before it, of those that compete for the same backends."""
        if lane.queue is _GLOBAL_RETRY:
            return lane.line.ahead(ticket.place)
        return lane.pool.ahead(ticket, lane)

    def expired(self, now: float) -> Iterator[tuple[Ticket, Lane]]:
        """Those whose `start_by` has come; the caller takes each out."""
        deadlines = self.deadlines
        while deadlines and (deadlines[0][0] <= now or deadlines[0][2].lane is None):
            ticket = heappop(deadlines)[2]
            if ticket.lane is not None:
                yield ticket, ticket.lane

    def next_deadline(self) -> float | None:
        while self.deadlines and self.deadlines[0][2].lane is None:
            heappop(self.deadlines)
        return self.deadlines[0][0] if self.deadlines else None

    def entitle_again(self, models: frozenset[str]) -> None:
        """Breakers changed: who may take from the lanes of these models may have, too."""
        for model in models:
            for lane in self._of_model[model]:
                self._entitle(lane)

    def lanes(self) -> list[Lane]:
        """Those in which somebody waits."""
        return [lane for lane in self._lanes.values() if lane.live]

    def waiting_for(self, model: str) -> int:
        return sum(lane.live for lane in self._of_model[model])

    def _lane(self, queue: Queue, region: str, request: Request) -> Lane:
        rank = request.rank if queue is _MAIN else 0
        key = (queue, region, request.model, rank, request.pinned)
        lane = self._lanes.get(key)
        if lane is None:
            pool = self._floor.pool(region, request.model)
            line = self.global_retry if queue is _GLOBAL_RETRY else pool.line(queue, rank)
            movable = not request.pinned
            lane = Lane(queue, region, request.model, rank, movable=movable, pool=pool, line=line)
            self._lanes[key] = lane
            self._of_model[request.model].append(lane)
            self._entitle(lane)
        return lane

    def _entitle(self, lane: Lane) -> None:
        before, lane.fleets = lane.fleets, self._floor.entitled(lane)
        for fleet in before:
            if fleet not in lane.fleets:
                fleet.detach(lane)
        for fleet in lane.fleets:
            if fleet not in before:
                fleet.attach(lane)
        lane.heads = tuple(fleet.heads_of(lane) for fleet in lane.fleets)

    def _enter(self, ticket: Ticket, lane: Lane) -> None:
        ticket.place = lane.line.join()
        for fleet in lane.fleets:
            fleet.waiting += 1
            if fleet.asides.until:
                fleet.asides.changed(lane.model)
        if lane.queue is _MAIN:
            lane.pool.changes += 1
        else:
            self._count_express(ticket, lane, 1)
        if lane.push(ticket):
            for heads in lane.heads:
                heads.offer(lane)

    def _count_express(self, ticket: Ticket, lane: Lane, change: int) -> None:
        if lane.queue is _GLOBAL_RETRY:
            for pool in self._floor.pools_of_model(lane.model):
                pool.moving += change
        else:
            lane.pool.changes += 1
            self.before_main[lane.region, ticket.request.rank] += change

    def _add_deadline(self, start_by: float, ticket: Ticket) -> None:
        if len(self.deadlines) > 2 * len(self.tickets) + _SLACK:
            self.deadlines = [entry for entry in self.deadlines if entry[2].lane is not None]
            heapify(self.deadlines)
        heappush(self.deadlines, (start_by, ticket.seq, ticket))
