"""Virtual time of the users of one tier in one region: GPU seconds had, divided by their weight."""

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from beacon_router.scheduling.decisions import Request

if TYPE_CHECKING:
    from beacon_router.scheduling.request_queue import RequestQueue

_SLACK = 64
EVERYBODY = ""
"""The one user of all requests where shares do not matter."""


class UserShares(Protocol):
    """What a queue needs to order its users."""

    floor: float
    version: int
    """Changes whenever the order of waiting requests may have."""

    def user_of(self, request: Request) -> str: ...
    def time_of(self, user: str) -> float: ...
    def enqueued(self, user: str) -> None: ...
    def dequeued(self, user: str) -> None: ...


class ArrivalOrder:
    """No shares: all requests belong to one user, so that their order is arrival."""

    __slots__ = ("floor", "version")

    def __init__(self) -> None:
        self.floor = 0.0
        self.version = 0

    def user_of(self, request: Request) -> str:
        del request
        return EVERYBODY

    def time_of(self, user: str) -> float:
        del user
        return 0.0

    def enqueued(self, user: str) -> None:
        """Nothing to count."""

    def dequeued(self, user: str) -> None:
        """Nothing to count."""


class FairShares:
    """A user is active while a request waits in the tier's main queue or runs. A user who becomes active
    starts at `floor`, the virtual time that the tier has reached: being idle earns no credit. When no user is
    active, all are equal again."""

    __slots__ = ("_max_times", "_running", "_times", "floor", "queues", "version", "waiting")

    def __init__(self) -> None:
        self.floor = 0.0
        self.version = 0
        self.queues: list[RequestQueue] = []
        """Those that order their users by these shares."""
        self.waiting: Counter[str] = Counter()
        """Requests in the main queues, by user."""
        self._running: Counter[str] = Counter()
        self._times: dict[str, float] = {}
        self._max_times = _SLACK
        """With more entries, those of idle users are removed."""

    def user_of(self, request: Request) -> str:
        return request.user

    def time_of(self, user: str) -> float:
        time = self._times.get(user)
        return self.floor if time is None else time

    def enqueued(self, user: str) -> None:
        self._activate(user)
        self.waiting[user] += 1

    def dequeued(self, user: str) -> None:
        self._count_down(self.waiting, user)

    def started(self, user: str, seconds: float, *, in_turn: bool) -> None:
        """A run of so many seconds, divided by weight, is charged; `in_turn`: it was chosen by its share."""
        self._activate(user)
        self._running[user] += 1
        time = self._times[user]
        if in_turn:
            self.floor = max(self.floor, time)
        self._times[user] = time + seconds
        self.version += 1

    def ended(self, user: str, seconds: float) -> None:
        """A run took so much more than was charged (less: negative)."""
        self._times[user] += seconds
        self.version += 1
        if seconds < 0.0 and user in self.waiting:
            for queue in self.queues:
                queue.share_fell(user)
        self._count_down(self._running, user)

    def fork(self) -> "FairShares":
        """An independent copy for a forecast, without queues."""
        copy = FairShares()
        copy.floor, copy._times = self.floor, self._times.copy()
        copy.waiting, copy._running = self.waiting.copy(), self._running.copy()
        return copy

    def _activate(self, user: str) -> None:
        if user not in self.waiting and user not in self._running:
            self._times[user] = max(self.floor, self._times.get(user, 0.0))

    def _count_down(self, counts: Counter[str], user: str) -> None:
        counts[user] -= 1
        if not counts[user]:
            del counts[user]
            if not self.waiting and not self._running:
                self._times.clear()
            elif len(self._times) > self._max_times:
                self._forget_idle()

    def _forget_idle(self) -> None:
        """A user who is idle and not past the floor would start at the floor again."""
        self._times = {
            user: time
            for user, time in self._times.items()
            if time > self.floor or user in self.waiting or user in self._running
        }
        self._max_times = 2 * len(self._times) + _SLACK
