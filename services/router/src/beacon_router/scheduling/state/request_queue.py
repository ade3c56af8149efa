"""Waiting requests of one queue, region, model and tier: FIFO per user, users by their share of GPU time."""

from collections.abc import Collection, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

from beacon_router.scheduling.decisions import Request
from beacon_router.scheduling.user_fifo import UserFifo

if TYPE_CHECKING:
    from beacon_router.scheduling.fair_share import FairShares
    from beacon_router.scheduling.state.backend_set import BackendSet
    from beacon_router.scheduling.state.domains import CompetitionDomain

_NONE = UserFifo([])
FORK_DEPTH = 512
"""A forecast copies so many requests of a user: more than it dispatches."""


class QueueKind(IntEnum):
    """In the order in which they are served."""

    ATTACH = 0
    GLOBAL_RETRY = 1
    REGION_RETRY = 2
    FRONT = 3
    MAIN = 4


class QueuedRequest:
    """A request in a queue."""

    __slots__ = ("arrived", "predicted", "queue", "request", "seq", "user", "waiting")

    def __init__(self, request: Request, seq: int, arrived: float, queue: "RequestQueue") -> None:
        self.request = request
        self.seq = seq
        self.arrived = arrived
        self.queue = queue
        self.user: str
        """By whom its queue orders it; set when it is put there."""
        self.waiting = True
        self.predicted: tuple[float, float] | None = None
        """When its wait was first estimated, and the wait that was predicted then."""


class RequestQueue:
    """FIFO per user; the users are in the order of their shares."""

    __slots__ = (
        "_fifos",
        "_head",
        "_head_version",
        "_source",
        "avoided",
        "backend",
        "domain",
        "elsewhere",
        "kind",
        "model",
        "needs",
        "pinned",
        "rank",
        "region",
        "sets",
        "shares",
        "size",
    )

    def __init__(
        self, kind: QueueKind, region: str, model: str, rank: int, *, pinned: bool, shares: "FairShares"
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
        self.backend: str | None = None
        """Where the runs of its requests are in progress already."""
        self.avoided: frozenset[str] = frozenset()
        """Of a global retry: the regions that do not take it at first,"""
        self.elsewhere = False
        """because a healthy backend of another region serves the model."""
        self.needs: frozenset[str] = frozenset()
        """The capabilities that its requests need of a backend."""
        self.sets: tuple[BackendSet, ...] = ()
        """The backend sets that may take from it."""
        self.size = 0
        self._fifos: dict[str, UserFifo] = {}
        self._head: QueuedRequest | None = None
        self._head_version = -1
        self._source: dict[str, UserFifo] | None = None
        """Of a copy: the FIFOs of the original."""

    @property
    def forked(self) -> bool:
        """It is the copy of a forecast."""
        return self._source is not None

    def push(self, queued: QueuedRequest) -> None:
        user = queued.user = self.shares.user_of(queued.request)
        fifo = self._fifo(user)
        first = not fifo
        if first:
            self._fifos[user] = UserFifo([queued])
        else:
            fifo.append(queued)
        self.size += 1
        self.shares.enqueued(user, queued, first=first)
        for backend_set in self.sets:
            backend_set.changes += 1
            if self.size == 1:
                backend_set.activate(self)
            elif self.model in backend_set.warm_waits:
                backend_set.recheck_warm_wait(self.model)

    def remove(self, queued: QueuedRequest) -> None:
        """Take a request out, wherever it is."""
        user = queued.user
        fifo = self._fifo(user)
        was_first = fifo.remove(queued)
        following = fifo.first if fifo else None
        if following is None and self._source is None:
            del self._fifos[user]  # a copy keeps it in place of the source's
        self.size -= 1
        self.shares.dequeued(user, queued, following, first=was_first)
        for backend_set in self.sets:
            backend_set.changes += 1
            if not self.size:
                backend_set.deactivate(self)
            elif self.model in backend_set.warm_waits:
                backend_set.recheck_warm_wait(self.model)

    def head(self) -> QueuedRequest | None:
        """The oldest request of the first user who has one here."""
        version = self.shares.version
        if version != self._head_version:
            self._head, self._head_version = self._find_head(), version
        return self._head

    def requests(self) -> Iterator[QueuedRequest]:
        """All that wait, user by user."""
        for fifo in self._fifos.values():
            yield from fifo

    def waiting_of(self, user: str) -> int:
        return len(self._fifo(user))

    def newer_of(self, user: str, seq: int) -> int:
        """How many of the user arrived after the request of this number."""
        fifo = self._fifo(user)
        return len(fifo) - fifo.before(seq + 1) if fifo else 0

    def ahead(self, queued: QueuedRequest, user: str | None = None) -> int:
        """How many arrived before this request, of all users or of one."""
        if user is None:
            return sum(fifo.before(queued.seq) for fifo in self._fifos.values())
        own = self._fifos.get(user)
        return 0 if own is None else own.before(queued.seq)

    def fork(self, shares: "FairShares") -> "RequestQueue":
        """An independent copy for a forecast; users are copied when they are first served."""
        copy = RequestQueue(self.kind, self.region, self.model, self.rank, pinned=self.pinned, shares=shares)
        copy.avoided, copy.elsewhere, copy.size = self.avoided, self.elsewhere, self.size
        copy.needs, copy.backend = self.needs, self.backend
        copy._source = self._fifos
        return copy

    def _find_head(self) -> QueuedRequest | None:
        """Of few users the first is searched, else the first user in order who has a request here."""
        places, order = self.shares.places, self.shares.order
        users: Collection[str] = self._fifos
        if self._source is not None:
            users = {**self._source, **self._fifos} if len(self._source) ** 2 < len(order) else ()
            users = [user for user in users if self._fifo(user)]
        if users and len(users) ** 2 < len(order):
            return self._fifo(min(map(places.__getitem__, users))[2]).first
        return next((fifo.first for _, _, user, _ in order if (fifo := self._fifo(user))), None)

    def _fifo(self, user: str) -> UserFifo:
        """The requests of a user; an empty one if there are none."""
        fifo = self._fifos.get(user)
        if fifo is None:
            source = None if self._source is None else self._source.get(user)
            if source is None:
                return _NONE
            fifo = self._fifos[user] = source.copy(FORK_DEPTH)
        return fifo
