"""Tiers and their limits, lanes, worker pools, promotion and skip prices."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from beacon_config.topology import Count, PositiveSeconds, Section
from beacon_contracts.model import Name
from beacon_contracts.tiers import JobClass


class TierConfig(Section):
    job_class: JobClass = Field(default=JobClass.MEDIUM, alias="class")
    pending_jobs: Count | None = None
    jobs_per_hour: Count | None = None
    max_duration_s: PositiveSeconds | None = None
    executions_per_job: Count | None = None
    requests_per_minute: Annotated[int, Field(ge=1, le=100_000)] | None = None
    concurrent_requests: Annotated[int, Field(ge=1, le=100_000)] | None = None
    streams: Annotated[int, Field(ge=1, le=100_000)] | None = None
    models: list[Name] = Field(default_factory=list, description="Allowed models; empty: all")
    starvation_bound_s: PositiveSeconds = 60.0
    starvation_weight: Count = 1

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


def _tier(job_class: JobClass, bound_s: float, weight: int, **limits: float) -> TierConfig:
    fields = {"class": job_class, "starvation_bound_s": bound_s, "starvation_weight": weight}
    return TierConfig.model_validate(fields | limits)


def _limits(
    jobs: tuple[int, int, int], executions: int, requests: tuple[int, int], streams: int
) -> dict[str, int]:
    pending, per_hour, duration_s = jobs
    per_minute, concurrent = requests
    return {
        "pending_jobs": pending,
        "jobs_per_hour": per_hour,
        "max_duration_s": duration_s,
        "executions_per_job": executions,
        "requests_per_minute": per_minute,
        "concurrent_requests": concurrent,
        "streams": streams,
    }


DEFAULT_TIERS = {
    "admin": _tier(JobClass.HIGH, 30, 16),
    "creator": _tier(JobClass.HIGH, 45, 8, **_limits((20, 60, 180), 10_000, (300, 32), 64)),
    "premium": _tier(JobClass.MEDIUM, 60, 4, **_limits((10, 30, 120), 2_000, (120, 16), 32)),
    "supporter": _tier(JobClass.MEDIUM, 90, 2, **_limits((5, 15, 60), 500, (60, 8), 16)),
    "free": _tier(JobClass.LOW, 120, 1, **_limits((2, 3, 30), 100, (20, 4), 8)),
}
DEFAULT_POOLS = {
    "high": PoolConfig(slots=5, classes=[JobClass.HIGH]),
    "medium": PoolConfig(slots=5, classes=[JobClass.MEDIUM, JobClass.HIGH]),
    "low": PoolConfig(slots=3, classes=[JobClass.LOW, JobClass.MEDIUM, JobClass.HIGH]),
}
DEFAULT_SKIP_PRICES = [
    SkipPrice(up_to_s=10, price=1),
    SkipPrice(up_to_s=30, price=3),
    SkipPrice(up_to_s=60, price=5),
    SkipPrice(up_to_s=120, price=10),
    SkipPrice(price=15),
]
