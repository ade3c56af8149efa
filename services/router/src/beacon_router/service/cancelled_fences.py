"""Leases that a cancel has broken: what was under way then, and asks later, finds that it is over."""

from collections import OrderedDict

from beacon_router.scheduling import RequestId

MOST = 100_000  # the oldest go first: they are the least likely to be asked for still


class CancelledFences:
    """The fence of each cancel, for as long as results are kept; it need not be of anything that is known."""

    def __init__(self, retention_s: float) -> None:
        self._retention_s = retention_s
        self._broken: OrderedDict[RequestId, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._broken)

    def add(self, request: RequestId, fence: int, now: float) -> None:
        self._forget(now)
        known, _ = self._broken.pop(request, (fence, now))
        self._broken[request] = (max(known, fence), now)

    def below(self, request: RequestId) -> int:
        """Fences below this one are over."""
        return self._broken.get(request, (0, 0.0))[0]

    def _forget(self, now: float) -> None:
        while self._broken:
            request, (_, added_at) = next(iter(self._broken.items()))
            if len(self._broken) < MOST and added_at + self._retention_s > now:
                return
            del self._broken[request]
