"""Heaps that know the heads of lanes only, and the guards that hold some of them back."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from math import inf

from beacon_router.core.lanes import NOBODY, Lane
from beacon_router.core.limits import Limit

_SLACK = 64


class Guard:
    """Whether a model may start another run in a region; keeps the heads that must wait for that."""

    __slots__ = ("_parked", "exclusive", "limit", "running")

    def __init__(self, *, exclusive: bool, limit: Limit | None) -> None:
        self.exclusive = exclusive
        self.limit = limit
        self.running = 0
        self._parked: dict[tuple[Heads, Lane], None] = {}

    @property
    def shut(self) -> bool:
        if self.exclusive and self.running:
            return True
        return self.limit is not None and self.limit.full

    def park(self, heads: "Heads", lane: Lane) -> None:
        self._parked[heads, lane] = None

    def reopen(self) -> None:
        """Offer what was parked again, if runs may start."""
        if self._parked and not self.shut:
            parked, self._parked = self._parked, {}
            for heads, lane in parked:
                heads.look_at(lane)


class Heads:
    """The heads of many lanes by arrival. Entries whose lane has another head by now are skipped."""

    __slots__ = ("_guards", "bound_s", "due_at", "entries", "lanes")

    def __init__(self, guards: dict[str, Guard], bound_s: float = inf) -> None:
        self._guards = guards
        self.bound_s = bound_s
        self.due_at = inf
        """Nobody here is past the bound before then."""
        self.entries: list[tuple[int, Lane]] = []
        self.lanes: set[Lane] = set()

    def attach(self, lane: Lane) -> None:
        self.lanes.add(lane)
        self.look_at(lane)

    def detach(self, lane: Lane) -> None:
        self.lanes.discard(lane)
        self._rebuild()

    def look_at(self, lane: Lane) -> None:
        """The lane may be taken from again, if it still belongs here and somebody waits in it."""
        if lane.head is not NOBODY and lane in self.lanes:
            self.offer(lane)

    def offer(self, lane: Lane) -> None:
        """The lane has a new head."""
        entries = self.entries
        if entries and entries[0][1] is lane:
            heapreplace(entries, (lane.head.seq, lane))
            return
        self.due_at = min(self.due_at, lane.head.arrived + self.bound_s)
        heappush(entries, (lane.head.seq, lane))
        if len(entries) > 2 * len(self.lanes) + _SLACK:
            self._rebuild()

    def first(self) -> Lane | None:
        """The lane whose head came first, of those whose model may start a run."""
        heap = self.entries
        while heap:
            seq, lane = heap[0]
            if lane.head.seq == seq:
                guard = self._guards.get(lane.model)
                if guard is None or not guard.shut:
                    return lane
                guard.park(self, lane)
            heappop(heap)
        return None

    def overdue(self, now: float) -> Lane | None:
        """`first`, if it has waited past the bound."""
        lane = self.first()
        self.due_at = inf if lane is None else lane.head.arrived + self.bound_s
        return lane if self.due_at <= now else None

    def in_order(self) -> Iterator[Lane]:
        """`first`, then the others, as far as the caller wants to know."""
        first = self.first()
        if first is None:
            return
        yield first
        entries, last = self.entries, first.head.seq
        size = len(entries)
        nearest = sorted((entries[child][0], child) for child in (1, 2) if child < size)
        while nearest:
            seq, index = heappop(nearest)
            for child in (2 * index + 1, 2 * index + 2):
                if child < size:
                    heappush(nearest, (entries[child][0], child))
            lane = entries[index][1]
            if lane.head.seq == seq and seq != last and not self._held_back(lane):
                last = seq
                yield lane

    def _held_back(self, lane: Lane) -> bool:
        guard = self._guards.get(lane.model)
        return guard is not None and guard.shut

    def _rebuild(self) -> None:
        self.entries = [(lane.head.seq, lane) for lane in self.lanes if lane.head is not NOBODY]
        heapify(self.entries)
        arrived = min((lane.head.arrived for _, lane in self.entries), default=inf)
        self.due_at = min(self.due_at, arrived + self.bound_s)
