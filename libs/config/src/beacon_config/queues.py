"""The queues of the runner: lanes, worker pools, promotion."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from beacon_config.section import RESTART, PositiveSeconds, Section
from beacon_contracts.tiers import JobClass


class LaneStrategy(StrEnum):
    """How the lane of a job is chosen (docs/architecture.md)."""

    PER_USER = "per_user"
    LEAST_LOADED = "least_loaded"
    HASH = "hash"
    SINGLE = "single"


class LanesConfig(Section):
    """FIFOs inside a class, served round-robin."""

    strategy: LaneStrategy = Field(
        default=LaneStrategy.PER_USER,
        description="How jobs are spread over lanes; only per_user isolates users",
        json_schema_extra=RESTART,
    )
    count: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=20,
        description="Number of lanes of the strategies least_loaded and hash",
        json_schema_extra=RESTART,
    )


class PoolConfig(Section):
    """Worker slots for classes of jobs."""

    slots: Annotated[int, Field(ge=1, le=10_000)] = Field(
        description="Jobs that the pool of a worker process handles at the same time",
        json_schema_extra=RESTART,
    )
    classes: Annotated[list[JobClass], Field(min_length=1)] = Field(
        description="The class that it serves first, then those that it serves while that one is empty",
        json_schema_extra=RESTART,
    )
    strict: bool = Field(default=False, description="Serve the first class only", json_schema_extra=RESTART)

    @property
    def served(self) -> list[JobClass]:
        """The classes whose jobs the pool runs: a strict pool serves its first class only."""
        return self.classes[:1] if self.strict else self.classes


class PromotionConfig(Section):
    """Raises the class of jobs that wait long."""

    low_to_medium_after_s: PositiveSeconds = Field(
        default=1800.0, description="Wait after which a job of class low becomes medium"
    )
    medium_to_high_after_s: PositiveSeconds = Field(
        default=3600.0, description="Wait after which a job of class medium becomes high"
    )
    check_every_s: PositiveSeconds = Field(
        default=300.0, description="Interval of the check", json_schema_extra=RESTART
    )


DEFAULT_POOLS = {
    "high": PoolConfig(slots=100, classes=[JobClass.HIGH]),
    "medium": PoolConfig(slots=100, classes=[JobClass.MEDIUM, JobClass.HIGH]),
    "low": PoolConfig(slots=100, classes=[JobClass.LOW, JobClass.MEDIUM, JobClass.HIGH]),
}
