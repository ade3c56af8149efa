"""Priorities: tiers rank users; classes select the runner's queue and worker pool."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from beacon_contracts.model import Name

# The names of tiers are configuration; their order there is their rank.
Tier = Name

ShareWeight = Annotated[
    float,
    Field(
        ge=0.01,
        le=100,
        allow_inf_nan=False,
        description="Weight of the user in the fair share of GPU time of its tier",
    ),
]


class JobClass(StrEnum):
    """The runner queue and worker pools of a job."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
