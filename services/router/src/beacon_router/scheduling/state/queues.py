"""Everything that waits: by id, by queue, by deadline."""

from heapq import heapify, heappop, heappush

from beacon_router.scheduling.decisions import Request, RequestId
from beacon_router.scheduling.state.cluster_state import ClusterState
from beacon_router.scheduling.state.request_queue import QueuedRequest, QueueKind, RequestQueue

_SLACK = 64
QueueKey = tuple[QueueKind, str, str, int, bool, frozenset[str], frozenset[str], str | None]
_NOWHERE: frozenset[str] = frozenset()


class RequestQueues:
    __slots__ = ("_by_model", "_deadlines", "_queues", "_state", "last_seq", "waiting")

    def __init__(self, state: ClusterState) -> None:
        self.waiting: dict[RequestId, QueuedRequest] = {}
        self.last_seq = 0
        self._state = state
        self._queues: dict[QueueKey, RequestQueue] = {}
        self._by_model: dict[str, list[RequestQueue]] = {model: [] for model in state.models}
        self._deadlines: list[tuple[float, int, QueuedRequest]] = []

    def join(
        self, now: float, request: Request, kind: QueueKind, region: str, avoided: frozenset[str] = _NOWHERE
    ) -> RequestQueue:
        """Wait at the end of a queue."""
        queue = self._queue(kind, region, request, avoided)
        self.last_seq += 1
        queued = self.waiting[request.id] = QueuedRequest(request, self.last_seq, now, queue)
        if request.start_by is not None:
            self._add_deadline(request.start_by, queued)
        queue.domain.arrived(now, request, queue)
        queue.domain.region.requested(request.model)
        queue.push(queued)
        return queue

    def to_front(self, queued: QueuedRequest) -> RequestQueue:
        """Leave the main queue for the paid front of the same region; the time waited is kept."""
        region = queued.queue.region
        self.leave(queued)
        self.waiting[queued.request.id] = queued
        queued.waiting = True
        self.last_seq += 1
        queued.seq = self.last_seq
        queued.queue = front = self._queue(QueueKind.FRONT, region, queued.request, _NOWHERE)
        front.push(queued)
        return front

    def adopt(self, queued: QueuedRequest, region: str, avoided: frozenset[str]) -> None:
        """A request that waited in an earlier topology; in the order of their numbers."""
        request = queued.request
        self.waiting[request.id] = queued
        queued.queue = queue = self._queue(queued.queue.kind, region, request, avoided)
        if request.start_by is not None:
            self._add_deadline(request.start_by, queued)
        queue.push(queued)

    def leave(self, queued: QueuedRequest) -> RequestQueue:
        """Remove a waiting request; returns the queue that it was in."""
        queued.queue.remove(queued)
        return self.started(queued)

    def started(self, queued: QueuedRequest) -> RequestQueue:
        """Forget a request that has left its queue."""
        del self.waiting[queued.request.id]
        queued.waiting = False
        return queued.queue

    def expired(self, now: float) -> list[QueuedRequest]:
        """Those whose `start_by` has come; the caller removes them."""
        expired, deadlines = [], self._deadlines
        while deadlines and (deadlines[0][0] <= now or not deadlines[0][2].waiting):
            queued = heappop(deadlines)[2]
            if queued.waiting:
                expired.append(queued)
        return expired

    def next_deadline(self) -> float | None:
        while self._deadlines and not self._deadlines[0][2].waiting:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def update_eligibility(self, models: frozenset[str]) -> None:
        """Breakers changed, and so which backend sets may take from the queues of these models."""
        for model in models:
            for queue in self._by_model[model]:
                self._attach(queue)

    def queues(self) -> list[RequestQueue]:
        """Those in which requests wait."""
        return [queue for queue in self._queues.values() if queue.size]

    def waiting_for(self, model: str) -> int:
        return sum(queue.size for queue in self._by_model[model])

    def _queue(self, kind: QueueKind, region: str, request: Request, avoided: frozenset[str]) -> RequestQueue:
        rank = request.rank if kind is QueueKind.MAIN else 0
        key = (kind, region, request.model, rank, request.pinned, avoided, request.needs, request.backend)
        queue = self._queues.get(key)
        if queue is None:
            shares = self._state.shares_of(kind, region, rank)
            queue = RequestQueue(kind, region, request.model, rank, pinned=request.pinned, shares=shares)
            queue.avoided, queue.needs, queue.backend = avoided, request.needs, request.backend
            queue.domain = self._state.domain(region, request.model)
            self._queues[key] = queue
            self._by_model[request.model].append(queue)
            self._attach(queue)
        return queue

    def _attach(self, queue: RequestQueue) -> None:
        queue.elsewhere = bool(queue.avoided) and self._state.healthy_outside(queue)
        before, queue.sets = queue.sets, self._state.eligible_sets(queue)
        for backend_set in before:
            if backend_set not in queue.sets:
                backend_set.deactivate(queue)
        if queue.size:
            for backend_set in queue.sets:
                if backend_set not in before:
                    backend_set.activate(queue)

    def _add_deadline(self, start_by: float, queued: QueuedRequest) -> None:
        if len(self._deadlines) > 2 * len(self.waiting) + _SLACK:
            self._deadlines = [entry for entry in self._deadlines if entry[2].waiting]
            heapify(self._deadlines)
        heappush(self._deadlines, (start_by, queued.seq, queued))
