"""When a failed attempt is tried again, if at all: pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    attempts: int
    max_delay_s: float

    def next_try(self, now: float, *, made: int, start_by: float | None) -> float | None:
        """The moment of the next attempt after `made`; None: there is none, or it would come too late."""
        if made >= self.attempts:
            return None
        due = now + min(2.0**made, self.max_delay_s)
        return None if start_by is not None and due > start_by else due
