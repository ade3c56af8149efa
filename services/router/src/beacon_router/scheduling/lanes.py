"""FIFOs of waiting requests."""

from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

from beacon_router.scheduling.decisions import Request, RequestId

if TYPE_CHECKING:
    from beacon_router.scheduling.fleet import Fleet
    from beacon_router.scheduling.heads import Heads
    from beacon_router.scheduling.line import Line
    from beacon_router.scheduling.patience import Allowance
    from beacon_router.scheduling.pools import Pool

_SLACK = 64


class Queue(IntEnum):
    """In the order in which they are looked at."""

    GLOBAL_RETRY = 0
    REGION_RETRY = 1
    FRONT = 2
    MAIN = 3


class Ticket:
    """A request that waits. `lane` is None once it no longer does."""

    __slots__ = ("allowance", "arrived", "foretold", "lane", "ordinal", "place", "request", "seq")

    def __init__(self, request: Request, seq: int, arrived: float, lane: "Lane | None") -> None:
        self.request = request
        self.seq = seq
        self.arrived = arrived
        self.lane = lane
        self.place = 0
        """In the line of its lane."""
        self.ordinal = 0
        """Its number in its lane."""
        self.foretold: tuple[float, float] | None = None
        """When somebody first asked, and the wait from then on that was rehearsed."""
        self.allowance: Allowance | None = None
        """Set when it first stood aside for a backend that holds its model."""


NOBODY = Ticket(Request(RequestId(""), "", "", 0), seq=-1, arrived=0.0, lane=None)
"""The head of an empty lane."""

Entry = tuple[Queue, int, "Lane"]
"""A lane by its queue and the number of its head, so that entries sort as their heads are looked at."""


class Lane:
    """Requests of one queue, region, model, rank and freedom to move, in arrival order."""

    __slots__ = (
        "_behind",
        "entry",
        "fleets",
        "head",
        "heads",
        "line",
        "live",
        "model",
        "movable",
        "pool",
        "pushed",
        "queue",
        "rank",
        "region",
    )

    def __init__(
        self, queue: Queue, region: str, model: str, rank: int, *, movable: bool, pool: "Pool", line: "Line"
    ) -> None:
        self.queue = queue
        self.region = region
        """Where its requests want to run; in the global retry queue, where they have just failed."""
        self.model = model
        self.rank = rank
        self.movable = movable
        self.pool = pool
        self.line = line
        """In which its requests are counted with those of other lanes."""
        self.fleets: tuple[Fleet, ...] = ()
        """The fleets that may take from it now."""
        self.heads: tuple[Heads, ...] = ()
        """Where these fleets look for its head."""
        self.live = 0
        self.pushed = 0
        self._behind: deque[Ticket] = deque()
        self._next_head()

    def waiting(self) -> Iterator[Ticket]:
        """Who waits, in order."""
        if self.live:
            yield self.head
        for ticket in self._behind:
            if ticket.lane is self:
                yield ticket

    def push(self, ticket: Ticket) -> bool:
        """True when the lane was empty, so that its head is new."""
        self._behind.append(ticket)
        self.pushed += 1
        ticket.ordinal = self.pushed
        self.live += 1
        if self.live > 1:
            return False
        self._next_head()
        return True

    def remove(self, ticket: Ticket) -> bool:
        """Take a ticket out, wherever it stands; True when it was the head, so that another is, or nobody."""
        ticket.lane = None
        self.live -= 1
        if ticket is self.head:
            self._next_head()
            return True
        if len(self._behind) > 2 * self.live + _SLACK:
            self._behind = deque(waiting for waiting in self._behind if waiting.lane is self)
        return False

    def _next_head(self) -> None:
        head = NOBODY
        while self.live and head.lane is not self:
            head = self._behind.popleft()
        self.head = head
        self.entry: Entry = (self.queue, head.seq, self)
        """Stands for the head among the heads of other lanes."""
