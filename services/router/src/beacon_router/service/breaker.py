"""When a backend has failed too often in a row it gets no work for a while, then one probe."""

from beacon_router.scheduling import Health


class Breaker:
    """Pure: the moments are arguments, and each method returns the health that follows."""

    __slots__ = ("_failures", "_limit", "_open_s", "health", "retry_at")

    def __init__(self, *, failures: int, open_s: float) -> None:
        self._limit = failures
        self._open_s = open_s
        self._failures = 0
        self.health = Health.CLOSED
        self.retry_at: float | None = None
        """When an open breaker lets a probe through."""

    def __repr__(self) -> str:
        return f"breaker {self.health}, {self._failures} of {self._limit} failures in a row"

    @property
    def failures(self) -> int:
        return self._failures

    def succeeded(self) -> Health:
        self._failures = 0
        self.retry_at = None
        self.health = Health.CLOSED
        return self.health

    def failed(self, now: float) -> Health:
        """An attempt failed, and it was the backend's doing."""
        self._failures += 1
        if self.health is Health.HALF_OPEN or self._failures >= self._limit:
            self._open(now)
        return self.health

    def answered(self) -> Health:
        """It refused a request (4xx): that is neither a success nor its failure, but it is alive."""
        return self.succeeded() if self.health is Health.HALF_OPEN else self.health

    def probe_due(self, now: float) -> Health:
        """The pause is over: one probe may go through."""
        if self.health is Health.OPEN and self.retry_at is not None and now >= self.retry_at:
            self.health = Health.HALF_OPEN
        return self.health

    def probe_now(self) -> Health:
        """There is word that it is back: no need to wait."""
        if self.health is Health.OPEN:
            self.health = Health.HALF_OPEN
        return self.health

    def probe_next(self) -> Health:
        """It has rested, as it had asked for: whether that was enough, one probe tells."""
        if self.health is Health.CLOSED:
            self.health = Health.HALF_OPEN
        return self.health

    def _open(self, now: float) -> None:
        if self.health is not Health.OPEN:
            self.health = Health.OPEN
            self.retry_at = now + self._open_s
