"""Who goes first: tiers rank users, classes choose the runner's queue and worker pool."""

from enum import StrEnum


class Tier(StrEnum):
    ADMIN = "admin"
    CREATOR = "creator"
    PREMIUM = "premium"
    SUPPORTER = "supporter"
    FREE = "free"

    @property
    def rank(self) -> int:
        """0 to 4, lower runs first."""
        return _RANKS[self]


_RANKS = {tier: rank for rank, tier in enumerate(Tier)}


class JobClass(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
