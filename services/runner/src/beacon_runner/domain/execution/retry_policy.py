"""How often a job is retried, and after which delays. The numbers are `[runner]` in the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RouterBackoff:
    """Delays of a job that the router did not accept: what the router requests, within bounds.

    From the second time in a row on the delay is at least `min_s`, doubled each time.
    """

    unreachable_s: float = 5.0
    """Where no router answers."""
    min_s: float = 0.5
    max_s: float = 60.0
    jitter: float = 0.25

    def bounded_s(self, requested_s: float | None) -> float:
        """None: no router answered."""
        return self.unreachable_s if requested_s is None else min(max(requested_s, self.min_s), self.max_s)

    def delay_s(self, times: int, requested_s: float | None, chance: float) -> float:
        """The delay after it was not accepted `times` times in a row; `chance` in [0, 1) spreads jobs."""
        grown = self.min_s * 2.0 ** min(times - 2, 16) if times > 1 else 0.0
        return max(self.bounded_s(requested_s), min(grown, self.max_s)) * (1.0 + self.jitter * chance)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A job is retried `retries` times; the n-th retry waits for the n-th delay, the last one repeats."""

    retries: int = 3
    delays_s: tuple[float, ...] = (60.0, 120.0, 180.0)
    router: RouterBackoff = RouterBackoff()
    jitter: float = 0.1

    def delay_s(self, attempt: int, chance: float) -> float:
        """The wait after `attempt`; `chance` in [0, 1) spreads jobs that failed together."""
        delay = self.delays_s[min(attempt, len(self.delays_s)) - 1]
        return delay * (1.0 + self.jitter * chance)


def allowed_attempts(spec: Mapping[str, Any], stage: int, policy: RetryPolicy) -> int:
    """How often a stage may be tried; the steps of a pipeline have their own number."""
    if "steps" in spec:
        return int(spec["steps"][stage]["attempts"])
    return policy.retries + 1
