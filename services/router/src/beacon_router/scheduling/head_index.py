"""The queues of one tier, ordered by their first requests."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace

from beacon_router.scheduling.request_queue import QueuedRequest, RequestQueue

_SLACK = 64


class HeadIndex:
    """A lazy heap: its first entry is checked when the order may have changed. Keys rise; a queue whose key
    falls is offered again. All queues order their users by the same shares."""

    __slots__ = ("_first", "_heap", "_offered", "_version", "queues")

    def __init__(self) -> None:
        self.queues: dict[RequestQueue, None] = {}
        """Those with waiting requests."""
        self._heap: list[tuple[float, int, int, RequestQueue]] = []
        self._offered = 0
        self._first: RequestQueue | None = None
        self._version = -1

    def __bool__(self) -> bool:
        return bool(self.queues)

    def __iter__(self) -> Iterator[RequestQueue]:
        return iter(self.queues)

    def add(self, queue: RequestQueue) -> None:
        self.queues[queue] = None
        self.offer(queue)

    def discard(self, queue: RequestQueue) -> None:
        self.queues.pop(queue, None)
        self._first = None

    def offer(self, queue: RequestQueue) -> None:
        """The first request of the queue may be another one, which comes earlier."""
        head = queue.head()
        if head is not None and queue in self.queues:
            if len(self._heap) > 2 * len(self.queues) + _SLACK:
                self._heap = [entry for other in self.queues if (entry := self._entry(other)) is not None]
                heapify(self._heap)
            heappush(self._heap, self._entry_of(queue, head))
            self._first = None

    def first(self) -> RequestQueue | None:
        """The queue whose first request has the least virtual time, then the earliest arrival."""
        if self._first is None or self._first.shares.version != self._version:
            self._first = self._find_first()
            if self._first is not None:
                self._version = self._first.shares.version
        return self._first

    def _find_first(self) -> RequestQueue | None:
        heap = self._heap
        while heap:
            time, seq, _, queue = heap[0]
            head = queue.head() if queue in self.queues else None
            if head is None:
                heappop(heap)
                continue
            key = (queue.time_of(head), head.seq)
            if key == (time, seq):
                return queue
            if key > (time, seq):
                heapreplace(heap, self._entry_of(queue, head))
            else:
                heappop(heap)  # it was offered again with the lower key
        return None

    def _entry(self, queue: RequestQueue) -> tuple[float, int, int, RequestQueue] | None:
        head = queue.head()
        return None if head is None else self._entry_of(queue, head)

    def _entry_of(self, queue: RequestQueue, head: QueuedRequest) -> tuple[float, int, int, RequestQueue]:
        self._offered += 1
        return (queue.time_of(head), head.seq, self._offered, queue)
