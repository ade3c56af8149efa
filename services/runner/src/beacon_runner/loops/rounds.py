"""What one `run_once` says: how much it did, and whether more is waiting already."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Round:
    count: int
    more: bool = False

    @classmethod
    def limited(cls, count: int, limit: int) -> "Round":
        """A round that took as many as it may: probably there is more."""
        return cls(count, more=count >= limit)
