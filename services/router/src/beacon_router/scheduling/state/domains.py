"""Backend sets that compete for the same requests, directly or through others."""

from collections import deque
from math import inf

from beacon_router.scheduling.decisions import Request
from beacon_router.scheduling.state.backend_set import BackendSet
from beacon_router.scheduling.state.backend_state import RegionState
from beacon_router.scheduling.state.request_queue import RequestQueue

_REMEMBERED = 256
_BURST_S = 1.0
Arrival = tuple[float, Request, RequestQueue]


class CompetitionDomain:
    """The backend sets of a region that are linked by models they share; requests for its models compete.

    A domain without backend sets has the requests for models that its region does not serve.
    """

    __slots__ = ("_last_arrivals", "arrivals", "models", "region", "sets")

    def __init__(self, region: RegionState, sets: list[BackendSet]) -> None:
        self.region = region
        self.sets = sets
        for backend_set in sets:
            backend_set.domain = self
        self.models = frozenset[str]().union(*(backend_set.models for backend_set in sets))
        self.arrivals: deque[Arrival] = deque(maxlen=_REMEMBERED)
        """The last arrivals, which a forecast expects to come again."""
        self._last_arrivals: dict[tuple[str, int], float] = {}
        """By user and rank, the newest last."""

    def arrived(self, now: float, request: Request, queue: RequestQueue) -> None:
        """Remember an arrival. Of requests that a user sends less than a second apart, such as the executions
        of a matrix, only the first counts: the others are not expected to come again."""
        sender = (request.user, request.rank)
        last = self._last_arrivals.pop(sender, -inf)
        self._last_arrivals[sender] = now
        if len(self._last_arrivals) > _REMEMBERED:
            del self._last_arrivals[next(iter(self._last_arrivals))]
        if now - last > _BURST_S or not request.user:
            self.arrivals.append((now, request, queue))

    @property
    def changes(self) -> int:
        return sum(backend_set.changes for backend_set in self.sets)

    def queues(self) -> dict[RequestQueue, None]:
        """All queues with waiting requests that its sets may take from."""
        return dict.fromkeys(queue for backend_set in self.sets for queue in backend_set.queues)


def linked(sets: list[BackendSet]) -> list[list[BackendSet]]:
    """Sets grouped so that those with a model in common, directly or through others, are together."""
    groups: list[list[BackendSet]] = []
    for backend_set in sets:
        touching = [group for group in groups if any(backend_set.models & other.models for other in group)]
        groups = [group for group in groups if group not in touching]
        groups.append([backend_set, *(other for group in touching for other in group)])
    return groups
