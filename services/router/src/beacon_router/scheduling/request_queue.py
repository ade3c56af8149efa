"""Waiting requests of one queue, region, model and tier: FIFO per user, users by their share of GPU time."""

from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from beacon_router.scheduling.decisions import Request
from beacon_router.scheduling.user_fifo import UserFifo

if TYPE_CHECKING:
    from beacon_router.scheduling.backend_set import BackendSet
    from beacon_router.scheduling.domains import CompetitionDomain
    from beacon_router.scheduling.fair_share import UserShares

_SLACK = 64
FORK_DEPTH = 256
"""A forecast copies so many requests of a user: more than it dispatches."""


class QueueKind(IntEnum):
    """In the order in which they are served."""

    GLOBAL_RETRY = 0
    REGION_RETRY = 1
    FRONT = 2
    MAIN = 3


class QueuedRequest:
    """A request in a queue."""

    __slots__ = ("arrived", "predicted", "queue", "request", "seq", "waiting")

    def __init__(self, request: Request, seq: int, arrived: float, queue: "RequestQueue") -> None:
        self.request = request
        self.seq = seq
        self.arrived = arrived
        self.queue = queue
        self.waiting = True
        self.predicted: tuple[float, float] | None = None
        """When its wait was first estimated, and the wait that was predicted then."""


class RequestQueue:
    """Its order is (virtual time of the user, arrival). The heap is lazy: its first entry is checked when the
    order may have changed."""

    __slots__ = (
        "_by_share",
        "_fifos",
        "_head",
        "_head_version",
        "_source",
        "avoided",
        "domain",
        "elsewhere",
        "kind",
        "model",
        "pinned",
        "rank",
        "region",
        "sets",
        "shares",
        "size",
    )

    def __init__(
        self, kind: QueueKind, region: str, model: str, rank: int, *, pinned: bool, shares: "UserShares"
    ) -> None:
        self.kind = kind
        self.region = region
        """Where its requests are to run; of a global retry, where they failed last."""
        self.model = model
        self.rank = rank
        self.pinned = pinned
        self.shares = shares
        self.domain: CompetitionDomain
        """Set by the owner of the queues."""
        self.avoided: frozenset[str] = frozenset()
        """Of a global retry: the regions that do not take it at first,"""
        self.elsewhere = False
        """because a healthy backend of another region serves the model."""
        self.sets: tuple[BackendSet, ...] = ()
        """The backend sets that may take from it."""
        self.size = 0
        self._fifos: dict[str, UserFifo] = {}
        self._by_share: list[tuple[float, int, str]] = []
        self._head: QueuedRequest | None = None
        self._head_version = -1
        self._source: dict[str, UserFifo] | None = None
        """Of a copy: the FIFOs of the original."""

    def push(self, queued: QueuedRequest) -> None:
        user = self.shares.user_of(queued.request)
        self.shares.enqueued(user)
        fifo = self._fifo(user)
        self.size += 1
        if fifo:
            fifo.append(queued)
        else:
            self._fifos[user] = UserFifo([queued])
            self._offer(user, queued.seq)

    def remove(self, queued: QueuedRequest) -> None:
        """Take a request out, wherever it stands."""
        user = self.shares.user_of(queued.request)
        fifo = self._fifo(user)
        self.size -= 1
        if fifo is not None:
            fifo.remove(queued)
            if not fifo and self._source is None:
                del self._fifos[user]  # a copy keeps it in place of the source's
        self.shares.dequeued(user)
        self.shares.version += 1
        if not self.size:
            for backend_set in self.sets:
                backend_set.deactivate(self)

    def head(self) -> QueuedRequest | None:
        """The first request of the user with the least virtual time."""
        version = self.shares.version
        if version != self._head_version:
            self._head, self._head_version = self._find_head(), version
        return self._head

    def time_of(self, queued: QueuedRequest) -> float:
        """The virtual time of the user of a request."""
        return self.shares.time_of(self.shares.user_of(queued.request))

    def share_fell(self, user: str) -> None:
        """The virtual time of the user is less than before."""
        fifo = self._fifos.get(user)
        if fifo:
            self._offer(user, fifo.first.seq)

    def requests(self) -> Iterator[QueuedRequest]:
        """All that wait, user by user."""
        for fifo in self._fifos.values():
            yield from fifo

    def ahead(self, queued: QueuedRequest, user: str | None = None) -> int:
        """How many arrived before this request, of all users or of one."""
        if user is None:
            return sum(fifo.before(queued.seq) for fifo in self._fifos.values())
        own = self._fifos.get(user)
        return 0 if own is None else own.before(queued.seq)

    def fork(self, shares: "UserShares") -> "RequestQueue":
        """An independent copy for a forecast; users are copied when they are first served."""
        copy = RequestQueue(self.kind, self.region, self.model, self.rank, pinned=self.pinned, shares=shares)
        copy.avoided, copy.elsewhere, copy.size = self.avoided, self.elsewhere, self.size
        copy._by_share = self._by_share.copy()
        copy._source = self._fifos
        return copy

    def _find_head(self) -> QueuedRequest | None:
        heap, time_of = self._by_share, self.shares.time_of
        while heap:
            time, seq, user = heap[0]
            fifo = self._fifo(user)
            if not fifo:
                heappop(heap)
                continue
            first, now = fifo.first, time_of(user)
            if first.seq == seq and now == time:
                return first
            if (now, first.seq) > (time, seq):
                heapreplace(heap, (now, first.seq, user))
            else:
                heappop(heap)  # the share fell: `share_fell` added another entry
        return None

    def _fifo(self, user: str) -> UserFifo | None:
        fifo = self._fifos.get(user)
        if fifo is None and self._source is not None:
            source = self._source.get(user)
            if source is not None:
                fifo = self._fifos[user] = source.copy(FORK_DEPTH)
        return fifo

    def _offer(self, user: str, seq: int) -> None:
        heap, time_of = self._by_share, self.shares.time_of
        if len(heap) > 2 * len(self._fifos) + _SLACK and self._source is None:
            heap[:] = sorted(
                (time_of(other), fifo.first.seq, other)
                for other, fifo in self._fifos.items()
                if other != user
            )
        heappush(heap, (time_of(user), seq, user))
        self.shares.version += 1
        for backend_set in self.sets:
            backend_set.activate(self)
