"""Priorities: tiers rank users; classes select the runner's queue and worker pool."""

from enum import StrEnum


class Tier(StrEnum):
    ADMIN = "admin"
    CREATOR = "creator"
    PREMIUM = "premium"
    SUPPORTER = "supporter"
    FREE = "free"

    @property
    def rank(self) -> int:
        """0 to 4; lower ranks have priority."""
        return _RANKS[self]


_RANKS = {tier: rank for rank, tier in enumerate(Tier)}


class JobClass(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
