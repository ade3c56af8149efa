"""How often a job is retried, and after which delays. The numbers are `[runner]` in the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A job is retried `retries` times; the n-th retry waits for the n-th delay, the last one repeats.

    A job that the router did not accept waits for the requested delay, and from the second time in a row on
    at least for `first_wait_s`, doubled each time up to `max_wait_s`.
    """

    retries: int = 3
    delays_s: tuple[float, ...] = (60.0, 120.0, 180.0)
    jitter: float = 0.1
    first_wait_s: float = 0.5
    max_wait_s: float = 60.0
    wait_jitter: float = 0.25

    def delay_s(self, attempt: int, chance: float) -> float:
        """The wait after `attempt`; `chance` in [0, 1) spreads jobs that failed together."""
        delay = self.delays_s[min(attempt, len(self.delays_s)) - 1]
        return delay * (1.0 + self.jitter * chance)

    def wait_s(self, times: int, requested_s: float, chance: float) -> float:
        """The wait after the router did not accept it `times` times in a row."""
        grown = self.first_wait_s * 2.0 ** min(times - 2, 16) if times > 1 else 0.0
        return max(requested_s, min(grown, self.max_wait_s)) * (1.0 + self.wait_jitter * chance)


def allowed_attempts(spec: Mapping[str, Any], stage: int, policy: RetryPolicy) -> int:
    """How often a stage may be tried; the steps of a pipeline have their own number."""
    if "steps" in spec:
        return int(spec["steps"][stage]["attempts"])
    return policy.retries + 1
