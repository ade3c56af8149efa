"""Everything the router remembers: what waits and runs, and results for a while. Bounded in bytes."""

from collections import OrderedDict
from dataclasses import dataclass

from beacon_router.scheduling import RequestId
from beacon_router.service.inference import Inference

# Results may take this share of all bytes; the oldest go first when they would take more.
_RESULTS_SHARE = 0.5
# What a result takes besides its output: many small ones fill the memory too.
RESULT_OVERHEAD = 1_200


@dataclass(frozen=True, slots=True)
class HeldBounds:
    bytes: int
    retention_s: float


class Held:
    def __init__(self, bounds: HeldBounds) -> None:
        self._bounds = bounds
        self._most_result_bytes = int(bounds.bytes * _RESULTS_SHARE)
        self._by_id: dict[RequestId, Inference] = {}
        # All results are kept equally long, so the order in which they ended is the order in which they go.
        self._results: OrderedDict[RequestId, Inference] = OrderedDict()
        self.payload_bytes = 0
        self.arriving_bytes = 0
        """Of bodies that are still coming in."""
        self.result_bytes = 0
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def retention_s(self) -> float:
        return self._bounds.retention_s

    @property
    def results(self) -> int:
        return len(self._results)

    @property
    def alive(self) -> int:
        return len(self._by_id) - len(self._results)

    @property
    def bytes(self) -> int:
        return self.payload_bytes + self.arriving_bytes + self.result_bytes

    @property
    def callers(self) -> int:
        """Connections that wait for the end of an inference."""
        return sum(len(inference.waiters) for inference in self._by_id.values())

    def get(self, request: RequestId) -> Inference | None:
        return self._by_id.get(request)

    def waiting(self) -> list[Inference]:
        """All that is accepted and neither runs nor is over."""
        return [
            inference for inference in self._by_id.values() if not inference.done and inference.run is None
        ]

    def has_room(self, size: int) -> bool:
        """Whether so much more fits; old results make room for new work."""
        needed = self.payload_bytes + self.arriving_bytes + size
        if needed > self._bounds.bytes:
            return False
        self._shrink_results(self._bounds.bytes - needed)
        return True

    def add(self, inference: Inference, now: float) -> None:
        """Take a new one in; it replaces a finished one of the same id."""
        self.sweep(now)
        self.drop_result(inference.id)
        self._by_id[inference.id] = inference
        self.payload_bytes += inference.payload_bytes

    def finish(self, inference: Inference) -> None:
        """From alive to result: its input is forgotten, its output kept."""
        inference.payload = None
        self.payload_bytes -= inference.payload_bytes
        self._results[inference.id] = inference
        self.result_bytes += _result_size(inference)
        self._shrink_results(self._most_result_bytes)

    def next_expiry(self) -> float | None:
        """When the oldest result is to be forgotten."""
        oldest = next(iter(self._results.values()), None)
        if oldest is None or oldest.ended_at is None:
            return None
        return oldest.ended_at + self._bounds.retention_s

    def sweep(self, now: float) -> None:
        """Forget results past their time: as many steps as there are such results."""
        while (expiry := self.next_expiry()) is not None and expiry <= now:
            self.drop_result(next(iter(self._results)))

    def drop_result(self, request: RequestId) -> None:
        inference = self._results.pop(request, None)
        if inference is not None:
            self.result_bytes -= _result_size(inference)
            del self._by_id[request]

    def _shrink_results(self, limit: int) -> None:
        while self._results and self.result_bytes > limit:
            self.drop_result(next(iter(self._results)))
            self.evicted += 1


def _result_size(inference: Inference) -> int:
    return RESULT_OVERHEAD + len(inference.output or b"") + len(inference.document or b"")
