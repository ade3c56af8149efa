"""Priorities: tiers rank users; classes select the runner's queue and worker pool."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field


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


ShareWeight = Annotated[
    float,
    Field(
        ge=0.01,
        le=100,
        allow_inf_nan=False,
        description="Of the user's share of GPU time among the users of its tier",
    ),
]


class JobClass(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
