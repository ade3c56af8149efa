"""All inferences that the router knows: live ones, and results for a while. Bounded in bytes."""

from collections import OrderedDict
from dataclasses import dataclass

from beacon_router.backends.types import EMPTY_OBJECT
from beacon_router.scheduling import RequestId
from beacon_router.service.inference import Inference

# Results may use this share of all bytes; beyond it the oldest are evicted.
MAX_RESULTS_SHARE = 0.5
# Memory of a result in addition to its output.
RESULT_OVERHEAD_BYTES = 1_200


@dataclass(frozen=True, slots=True)
class StoreLimits:
    bytes: int
    retention_s: float


class InferenceStore:
    def __init__(self, limits: StoreLimits) -> None:
        self._limits = limits
        self._max_result_bytes = int(limits.bytes * MAX_RESULTS_SHARE)
        self._by_id: dict[RequestId, Inference] = {}
        # All results are kept equally long, so they expire in the order in which they ended.
        self._results: OrderedDict[RequestId, Inference] = OrderedDict()
        self.payload_bytes = 0
        self.arriving_bytes = 0
        """Of request bodies that are still being received."""
        self.result_bytes = 0
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, request: RequestId) -> bool:
        return request in self._by_id

    @property
    def results(self) -> int:
        return len(self._results)

    @property
    def bytes(self) -> int:
        return self.payload_bytes + self.arriving_bytes + self.result_bytes

    @property
    def waiters(self) -> int:
        """Client requests that wait for an inference."""
        return sum(len(inference.waiters) + len(inference.observers) for inference in self._by_id.values())

    def get(self, request: RequestId) -> Inference | None:
        return self._by_id.get(request)

    def waiting(self) -> list[Inference]:
        """Accepted, not running and not ended."""
        return [
            inference for inference in self._by_id.values() if not inference.done and inference.run is None
        ]

    def live(self) -> list[Inference]:
        """Accepted and not ended."""
        return [inference for inference in self._by_id.values() if not inference.done]

    def has_room(self, size: int) -> bool:
        """Whether `size` more bytes fit; results are evicted to make room."""
        left = self._limits.bytes - self.payload_bytes - self.arriving_bytes - size
        if left < 0:
            return False
        if self.result_bytes > left:
            self._evict_results(left)
        return True

    def add(self, inference: Inference) -> None:
        """Add a live inference; it replaces a result of the same id."""
        if inference.id in self._results:
            self._drop_result(inference.id)
        self._by_id[inference.id] = inference
        self.payload_bytes += inference.payload_bytes

    def finish(self, inference: Inference) -> None:
        """The inference has ended: its payload and its preview are dropped, its output is kept."""
        if inference.progress is not None:
            inference.progress = inference.progress.model_copy(update={"preview": None})
        inference.spec = inference.spec._replace(
            input=EMPTY_OBJECT, params=EMPTY_OBJECT, context=EMPTY_OBJECT, files=()
        )
        self.payload_bytes -= inference.payload_bytes
        self._results[inference.id] = inference
        self.result_bytes += _result_bytes(inference)
        if self.result_bytes > self._max_result_bytes:
            self._evict_results(self._max_result_bytes)

    def forget(self, inference: Inference) -> None:
        """Nobody asks for its result any more."""
        if self._results.get(inference.id) is inference:
            self._drop_result(inference.id)

    def next_expiry(self) -> float | None:
        """When the oldest result expires."""
        for oldest in self._results.values():
            return None if oldest.ended_at is None else oldest.ended_at + self._limits.retention_s
        return None

    def drop_expired(self, now: float) -> None:
        while (expiry := self.next_expiry()) is not None and expiry <= now:
            self._drop_result(next(iter(self._results)))

    def _drop_result(self, request: RequestId) -> None:
        self.result_bytes -= _result_bytes(self._results.pop(request))
        del self._by_id[request]

    def _evict_results(self, limit: int) -> None:
        while self._results and self.result_bytes > limit:
            self._drop_result(next(iter(self._results)))
            self.evicted += 1


def _result_bytes(inference: Inference) -> int:
    return RESULT_OVERHEAD_BYTES + len(inference.output or b"") + len(inference.response or b"")
