"""A circuit breaker: after repeated failures, no calls for a while, then one probe."""

from enum import StrEnum


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    """One probe is allowed or in progress; its result closes or opens the breaker."""


class CircuitBreaker:
    """Pure: time is an argument. Opens after `max_failures` consecutive failures, for `open_s` seconds."""

    __slots__ = ("_max_failures", "_open_s", "failures", "retry_at", "state")

    def __init__(self, *, max_failures: int, open_s: float) -> None:
        self._max_failures = max_failures
        self._open_s = open_s
        self.state = BreakerState.CLOSED
        self.failures = 0
        """Consecutive failures."""
        self.retry_at: float | None = None
        """When an open breaker allows a probe."""

    def __repr__(self) -> str:
        return f"<CircuitBreaker {self.state}, {self.failures} of {self._max_failures} failures>"

    @property
    def closed(self) -> bool:
        return self.state is BreakerState.CLOSED

    def try_call(self, now: float) -> bool:
        """Whether to call now. The first call after `open_s` is the probe; its result must be reported."""
        return self.closed or self.half_open_if_due(now)

    def half_open_if_due(self, now: float) -> bool:
        """Allow a probe if the breaker has been open for `open_s`; true if it does from now on."""
        due = self.state is BreakerState.OPEN and self.retry_at is not None and now >= self.retry_at
        if due:
            self.state = BreakerState.HALF_OPEN
        return due

    def half_open(self) -> None:
        """Allow a probe now."""
        self.state = BreakerState.HALF_OPEN

    def record_success(self) -> None:
        self.state = BreakerState.CLOSED
        self.failures = 0
        self.retry_at = None

    def record_failure(self, now: float, *, fatal: bool = False) -> None:
        """`fatal`: it opens at once, because no call can succeed."""
        self.failures += 1
        opens = fatal or self.state is BreakerState.HALF_OPEN or self.failures >= self._max_failures
        if opens and self.state is not BreakerState.OPEN:
            self.state = BreakerState.OPEN
            self.retry_at = now + self._open_s
