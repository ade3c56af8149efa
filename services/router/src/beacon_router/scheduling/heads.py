"""Who leads the lanes, in order, and the guards that hold some of them back."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from math import inf

from beacon_router.scheduling.lanes import Entry, Lane
from beacon_router.scheduling.limits import Limit


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


class Alarm:
    """Nobody of a fleet is past the bound before then."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = inf


class Heads:
    """The heads of many lanes, in the order of their queue and arrival."""

    __slots__ = ("_alarm", "_guards", "bound_s", "due_at", "entries", "lanes")

    def __init__(self, guards: dict[str, Guard], alarm: Alarm, bound_s: float = inf) -> None:
        self._guards = guards
        self._alarm = alarm
        self.bound_s = bound_s
        self.due_at = inf
        """Nobody here is past the bound before then."""
        self.entries: list[Entry] = []
        """Sorted; without those that are parked."""
        self.lanes: dict[Lane, None] = {}

    def attach(self, lane: Lane) -> None:
        self.lanes[lane] = None
        self.look_at(lane)

    def detach(self, lane: Lane) -> None:
        del self.lanes[lane]
        if lane.entry in self.entries:
            self.entries.remove(lane.entry)

    def look_at(self, lane: Lane) -> None:
        """The lane may be taken from again, if it still belongs here and somebody waits in it."""
        if lane.live and lane in self.lanes and lane.entry not in self.entries:
            self.offer(lane)

    def offer(self, lane: Lane) -> None:
        """Somebody waits in the lane, where nobody did."""
        insort(self.entries, lane.entry)
        self.due_at = min(self.due_at, lane.head.arrived + self.bound_s)
        self._alarm.at = min(self._alarm.at, self.due_at)

    def replace(self, gone: Entry, lane: Lane) -> None:
        """The lane has another head, who came later, or none; one that is parked is looked at later."""
        entries = self.entries
        at = bisect_left(entries, gone)
        if at < len(entries) and entries[at] == gone:
            del entries[at]
            if lane.live:
                insort(entries, lane.entry, at)

    def first(self) -> Lane | None:
        """The lane whose head goes first, of those whose model may start a run."""
        entries = self.entries
        while entries:
            lane = entries[0][2]
            guard = self._guards.get(lane.model)
            if guard is None or not guard.shut:
                return lane
            guard.park(self, lane)
            del entries[0]
        return None

    def overdue(self, now: float) -> Lane | None:
        """`first`, if it has waited past the bound."""
        lane = self.first()
        self.due_at = inf if lane is None else lane.head.arrived + self.bound_s
        return lane if self.due_at <= now else None

    def in_order(self) -> Iterator[Lane]:
        """`first`, then the others, as far as the caller wants to know."""
        for _, _, lane in self.entries:
            guard = self._guards.get(lane.model)
            if guard is None or not guard.shut:
                yield lane
