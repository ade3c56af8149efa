"""Fences of cancelled inferences: requests with a lower fence that arrive later are refused."""

from collections import OrderedDict

from beacon_router.scheduling import RequestId

MAX_FENCES = 100_000  # the oldest are dropped first


class CancelledFences:
    """Kept as long as results are; the inference itself need not be known."""

    def __init__(self, retention_s: float) -> None:
        self._retention_s = retention_s
        self._fences: OrderedDict[RequestId, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._fences)

    def add(self, request: RequestId, fence: int, now: float) -> None:
        self._drop_expired(now)
        known, _ = self._fences.pop(request, (fence, now))
        self._fences[request] = (max(known, fence), now)

    def lowest_valid(self, request: RequestId) -> int:
        """Requests with a lower fence are cancelled."""
        return self._fences.get(request, (0, 0.0))[0]

    def _drop_expired(self, now: float) -> None:
        while self._fences:
            request, (_, added_at) = next(iter(self._fences.items()))
            if len(self._fences) < MAX_FENCES and added_at + self._retention_s > now:
                return
            del self._fences[request]
