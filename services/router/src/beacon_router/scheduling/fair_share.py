"""Virtual time of the users of one tier in one region: GPU seconds had, divided by their weight."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from beacon_router.scheduling.decisions import Request

if TYPE_CHECKING:
    from beacon_router.scheduling.state.request_queue import QueuedRequest, RequestQueue

_SLACK = 64
EVERYBODY = ""
"""The one user of all requests where order is arrival."""
Place = tuple[float, int, str, "QueuedRequest"]
"""Virtual time of a user, number of the oldest waiting request, user, this request."""
_Heads = list[tuple[int, "QueuedRequest"]]


class FairShares:
    """A user is active while a request waits in the tier's main queue or runs. A user who becomes active
    starts at `floor`, the least virtual time of the users with waiting requests when the last run started:
    being idle earns no credit. When no user is active, all are equal again.

    Without `by_user` all requests belong to one user, so that their order is arrival.
    """

    def __init__(self, *, by_user: bool = True) -> None:
        self.by_user = by_user
        self.floor = 0.0
        self.times: dict[str, float] = {}
        self.waiting: Counter[str] = Counter()
        """Requests in the main queues, by user."""
        self.order: list[Place] = []
        """The users with waiting requests, sorted."""
        self.places: dict[str, Place] = {}
        """The same by user."""
        self.version = 0
        """Changes with the order."""
        self._running: Counter[str] = Counter()
        self._max_times = _SLACK
        """Of `times`: with more entries, those of idle users are removed."""
        self._heads: dict[str, _Heads] = {}
        """By user, the oldest request in each queue, sorted."""
        self._source: dict[str, _Heads] | None = None
        self._forked: Mapping[RequestQueue, RequestQueue] = {}
        """Of a copy: the heads of the original, and the copies of queues."""

    def user_of(self, request: Request) -> str:
        return request.user if self.by_user else EVERYBODY

    def requests(self) -> Counter[str]:
        """Waiting and running ones, by user."""
        return self.waiting + self._running

    def first(self) -> "tuple[RequestQueue, QueuedRequest]":
        """The oldest request of the first user, and its queue."""
        queued = self.order[0][3]
        return self._forked.get(queued.queue, queued.queue), queued

    def queues_of(self, user: str) -> "list[RequestQueue]":
        """The queues in which requests of the user wait."""
        return [queued.queue for _, queued in self._heads[user]]

    def enqueued(self, user: str, queued: "QueuedRequest", *, first: bool) -> None:
        """`first`: it is the user's only request in its queue."""
        self.version += 1
        self._activate(user)
        self.waiting[user] += 1
        if first:
            insort(self._heads_of(user), (queued.seq, queued))
        if user not in self.places:
            self._move(user, queued)

    def dequeued(
        self, user: str, queued: "QueuedRequest", following: "QueuedRequest | None", *, first: bool
    ) -> None:
        """`first`: it was the user's oldest request in its queue; `following` is the next one there."""
        self.version += 1
        if first:
            heads = self._heads_of(user)
            del heads[bisect_left(heads, (queued.seq, queued))]
            if following is not None:
                insort(heads, (following.seq, following))
            if not heads and self._source is None:
                del self._heads[user]  # a copy keeps it in place of the source's
            if not heads or self.places[user][3] is queued:
                self._move(user, heads[0][1] if heads else None)
        self._count_down(self.waiting, user)

    def started(self, user: str, seconds: float) -> None:
        """A run of so many seconds, divided by weight, is charged."""
        self._activate(user)
        self._running[user] += 1
        if self.order:
            self.floor = max(self.floor, self.order[0][0])
        self._charge(user, seconds)

    def ended(self, user: str, seconds: float) -> None:
        """A run took so much more than was charged (less: negative)."""
        self._charge(user, seconds)
        self._count_down(self._running, user)

    def adopt(self, source: "FairShares") -> None:
        """Continue with the times of a tier in an earlier topology, after its requests have joined."""
        self.floor = max(self.floor, source.floor)
        for user, time in source.times.items():
            self.times[user] = max(time, self.times.get(user, time))
        for user, (_, _, _, oldest) in list(self.places.items()):
            self._move(user, oldest)

    def forget_idle(self) -> None:
        """When no user is active, all are equal. Else an idle user who is not past the floor would start at
        the floor again: when there are many, they are removed."""
        if not self.waiting and not self._running:
            self.times.clear()
        elif len(self.times) > self._max_times:
            self.times = {
                user: time
                for user, time in self.times.items()
                if time > self.floor or user in self.waiting or user in self._running
            }
            self._max_times = 2 * len(self.times) + _SLACK

    def resumed(self, user: str) -> None:
        """A run that was charged in an earlier topology goes on."""
        self.times.setdefault(user, self.floor)
        self._running[user] += 1

    def fork(self, forked: "Mapping[RequestQueue, RequestQueue]") -> "FairShares":
        """An independent copy for a forecast; `forked` has the copies of queues that take part."""
        copy = FairShares(by_user=self.by_user)
        copy.floor, copy.times = self.floor, self.times.copy()
        copy.order, copy.places = self.order.copy(), self.places.copy()
        copy.waiting, copy._running = self.waiting.copy(), self._running.copy()
        copy._source, copy._forked = self._heads, forked
        return copy

    def _heads_of(self, user: str) -> _Heads:
        heads = self._heads.get(user)
        if heads is None:
            source = () if self._source is None else self._source.get(user, ())
            heads = self._heads[user] = [head for head in source if head[1].queue in self._forked]
        return heads

    def _charge(self, user: str, seconds: float) -> None:
        if self.by_user:
            self.times[user] += seconds
            if user in self.places:
                self._move(user, self.places[user][3])

    def _move(self, user: str, oldest: "QueuedRequest | None") -> None:
        """The user's virtual time or oldest request changed; None: no request is left."""
        self.version += 1
        place = self.places.pop(user, None)
        if place is not None:
            del self.order[bisect_left(self.order, place)]
        if oldest is not None:
            self.places[user] = (self.times[user], oldest.seq, user, oldest)
            insort(self.order, self.places[user])

    def _activate(self, user: str) -> None:
        if user not in self.waiting and user not in self._running:
            self.times[user] = max(self.floor, self.times.get(user, 0.0))

    def _count_down(self, counts: Counter[str], user: str) -> None:
        counts[user] -= 1
        if not counts[user]:
            del counts[user]
            self.forget_idle()
