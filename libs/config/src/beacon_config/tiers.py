"""Tiers and their limits, lanes, worker pools, promotion and skip prices."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from beacon_config.topology import Count, PositiveSeconds, Section
from beacon_contracts.model import Name
from beacon_contracts.tiers import JobClass


class TierConfig(Section):
    job_class: JobClass = Field(alias="class")
    pending_jobs: Count | None = None
    jobs_per_hour: Count | None = None
    max_duration_s: PositiveSeconds | None = None
    executions_per_job: Count | None = None
    requests_per_minute: Annotated[int, Field(ge=1, le=100_000)] | None = None
    concurrent_requests: Annotated[int, Field(ge=1, le=100_000)] | None = None
    streams: Annotated[int, Field(ge=1, le=100_000)] | None = None
    models: list[Name] = Field(default_factory=list, description="Allowed models; empty: all")
    starvation_bound_s: PositiveSeconds
    starvation_weight: Count

    def allows(self, model: str) -> bool:
        return not self.models or model in self.models


class LaneStrategy(StrEnum):
    PER_USER = "per_user"
    LEAST_LOADED = "least_loaded"
    HASH = "hash"
    SINGLE = "single"


class LanesConfig(Section):
    strategy: LaneStrategy = LaneStrategy.PER_USER
    count: Annotated[int, Field(ge=1, le=1_000)] = 20


class PoolConfig(Section):
    slots: Annotated[int, Field(ge=1, le=10_000)]
    classes: Annotated[list[JobClass], Field(min_length=1)]
    strict: bool = False

    @property
    def served(self) -> list[JobClass]:
        """The classes whose jobs it runs: a strict pool serves its first class only."""
        return self.classes[:1] if self.strict else self.classes


class PromotionConfig(Section):
    low_to_medium_after_s: PositiveSeconds = 1800.0
    medium_to_high_after_s: PositiveSeconds = 3600.0
    check_every_s: PositiveSeconds = 300.0


class SkipPrice(Section):
    """The price for a job of at most `up_to_s` seconds; the last price has no limit."""

    up_to_s: PositiveSeconds | None = None
    price: Annotated[int, Field(ge=0, le=1_000_000)]
