"""Those that compete for the same backends: their order, and how many and how much is ahead of whom."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from beacon_router.scheduling.fleet import Fleet
from beacon_router.scheduling.lanes import Lane, Queue, Ticket
from beacon_router.scheduling.line import Line

_PAST: Final = 256
"""So many of those who came are remembered,"""
_TOGETHER: Final = 16
"""so many of them say how fast they came,"""
_FEW: Final = 8
"""and fewer say nothing of who comes next."""


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
        self.arrived: deque[tuple[float, Lane]] = deque(maxlen=_PAST)
        self.changes = 0
        """Counts who joins and leaves."""
        self.moving = 0
        """Waiting in the global retry queue for a model that this pool serves."""

    def arrivals_again(self, now: float) -> "Iterator[tuple[float, Lane]]":
        """Those who came come again, the last ones first: a rush goes on for as long as it has lasted."""
        past = [arrival for arrival in reversed(self.arrived) if arrival[0] < now]
        if len(past) < _FEW:
            return
        at = now
        while True:
            end = now
            for first in range(0, len(past), _TOGETHER):
                together = past[first : first + _TOGETHER]
                begin = together[-1][0]
                for _, lane in together:
                    at += (end - begin) / len(together)
                    yield at, lane
                end = begin

    def line(self, queue: Queue, rank: int) -> Line:
        if queue is Queue.MAIN:
            return self.ranks[rank]
        return self.front if queue is Queue.FRONT else self.retry

    def lines_ahead(self, queue: Queue, rank: int) -> list[Line]:
        """Whole lines that go before this one."""
        if queue is Queue.REGION_RETRY:
            return []
        if queue is Queue.FRONT:
            return [self.retry]
        return [self.retry, self.front, *self.ranks[:rank]]

    def ahead(self, ticket: Ticket, lane: Lane) -> int:
        whole = sum(line.count for line in self.lines_ahead(lane.queue, lane.rank))
        return self.moving + whole + lane.line.ahead(ticket.place)

    @property
    def waiting(self) -> int:
        return self.moving + self.retry.count + self.front.count + sum(line.count for line in self.ranks)


def linked(fleets: list[Fleet]) -> list[list[Fleet]]:
    """Fleets grouped so that those with a model in common, directly or through others, are together."""
    groups: list[list[Fleet]] = []
    for fleet in fleets:
        touching = [group for group in groups if any(fleet.models & other.models for other in group)]
        groups = [group for group in groups if group not in touching]
        groups.append([fleet, *(other for group in touching for other in group)])
    return groups
