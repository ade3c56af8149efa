"""Those that compete for the same backends: their order, and how many and how much is ahead of whom."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from beacon_router.core.fleet import Fleet
from beacon_router.core.lanes import Lane, Queue, Ticket
from beacon_router.core.line import Line

_MAIN: Final = Queue.MAIN
_FRONT: Final = Queue.FRONT
_REGION_RETRY: Final = Queue.REGION_RETRY
"""Asking an enum for a member costs as much as a call, and these are asked for in every decision."""


class Pool:
    """The fleets of a region that are linked by models they share, and everything that waits for them.

    A pool without fleets holds what its region asks for but does not serve.
    """

    __slots__ = (
        "arrived",
        "changes",
        "fleets",
        "front",
        "models",
        "moving",
        "ranks",
        "region",
        "retry",
    )

    def __init__(self, region: str, fleets: list[Fleet], ranks: int) -> None:
        self.region = region
        self.fleets = fleets
        for fleet in fleets:
            fleet.pool = self
        self.models = frozenset[str]().union(*(fleet.models for fleet in fleets))
        self.retry = Line()
        self.front = Line()
        self.ranks = tuple(Line() for _ in range(ranks))
        self.arrived: deque[tuple[float, Lane]] = deque(maxlen=128)
        self.changes = 0
        """Counts who joins and leaves."""
        self.moving = 0
        """Waiting in the global retry queue for a model that this pool serves."""

    def arrivals_again(self, now: float) -> "Iterator[tuple[float, Lane]]":
        past = list(self.arrived)
        if len(past) < 8 or now <= past[0][0]:
            return
        gap = (now - past[0][0]) / len(past)
        at = now
        while True:
            for _, lane in past:
                at += gap
                yield at, lane

    def join(self, ticket: Ticket, queue: Queue) -> None:
        self.changes += 1
        ticket.place = self._line(queue, ticket.request.rank).join()

    def leave(self, ticket: Ticket, queue: Queue) -> None:
        self.changes += 1
        self._line(queue, ticket.request.rank).leave(ticket.place)

    def lines_ahead(self, queue: Queue, rank: int) -> list[Line]:
        """Whole lines that go before this one."""
        if queue is _REGION_RETRY:
            return []
        if queue is _FRONT:
            return [self.retry]
        return [self.retry, self.front, *self.ranks[:rank]]

    def ahead(self, ticket: Ticket, queue: Queue) -> int:
        rank = ticket.request.rank
        whole = sum(line.count for line in self.lines_ahead(queue, rank))
        return self.moving + whole + self._line(queue, rank).ahead(ticket.place)

    @property
    def waiting(self) -> int:
        return self.moving + self.retry.count + self.front.count + sum(line.count for line in self.ranks)

    def _line(self, queue: Queue, rank: int) -> Line:
        if queue is _MAIN:
            return self.ranks[rank]
        return self.front if queue is _FRONT else self.retry


def linked(fleets: list[Fleet]) -> list[list[Fleet]]:
    """Fleets grouped so that those with a model in common, directly or through others, are together."""
    groups: list[list[Fleet]] = []
    for fleet in fleets:
        touching = [group for group in groups if any(fleet.models & other.models for other in group)]
        groups = [group for group in groups if group not in touching]
        groups.append([fleet, *(other for group in touching for other in group)])
    return groups
