"""FIFOs of waiting requests."""

from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

from beacon_router.core.decisions import Request, RequestId

if TYPE_CHECKING:
    from beacon_router.core.fleet import Fleet
    from beacon_router.core.heads import Heads
    from beacon_router.core.line import Line
    from beacon_router.core.pools import Pool

_SLACK = 64


class Queue(IntEnum):
    """In the order in which they are looked at."""

    GLOBAL_RETRY = 0
    REGION_RETRY = 1
    FRONT = 2
    MAIN = 3


class Ticket:
    """A request that waits. `lane` is None once it no longer does."""

    __slots__ = ("arrived", "foretold", "lane", "ordinal", "patient_until", "place", "request", "seq")

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
        self.patient_until: float | None = None
        """Set when it first stood aside for a backend that holds its model."""


NOBODY = Ticket(Request(RequestId(""), "", "", 0), seq=-1, arrived=0.0, lane=None)
"""The head of an empty lane."""


class Lane:
    """Requests of one queue, region, model, rank and freedom to move, in arrival order."""

    __slots__ = (
        "_tickets",
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
        self.head = NOBODY
        self._tickets: deque[Ticket] = deque()

    def waiting(self) -> Iterator[Ticket]:
        """Who waits, in order."""
        return (ticket for ticket in self._tickets if ticket.lane is self)

    def push(self, ticket: Ticket) -> bool:
        """True when the lane was empty, so that its head is new."""
        self._tickets.append(ticket)
        self.pushed += 1
        ticket.ordinal = self.pushed
        self.live += 1
        if self.live > 1:
            return False
        self._next_head()
        return True

    def remove(self, ticket: Ticket) -> bool:
        """Take a ticket out, wherever it stands; True when there is another head now."""
        ticket.lane = None
        self.live -= 1
        if ticket is self.head:
            self._next_head()
            return self.live > 0
        if len(self._tickets) > 2 * self.live + _SLACK:
            self._tickets = deque(waiting for waiting in self._tickets if waiting.lane is self)
        return False

    def _next_head(self) -> None:
        tickets = self._tickets
        while tickets and tickets[0].lane is not self:
            tickets.popleft()
        self.head = tickets[0] if tickets else NOBODY
