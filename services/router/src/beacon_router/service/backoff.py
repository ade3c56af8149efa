"""Delays between attempts. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    attempts: int
    max_delay_s: float

    def next_attempt_at(self, now: float, *, attempts_made: int, start_by: float | None) -> float | None:
        """None: no attempt is left, or it would start after `start_by`."""
        if attempts_made >= self.attempts:
            return None
        due = now + min(2.0**attempts_made, self.max_delay_s)
        return None if start_by is not None and due > start_by else due
