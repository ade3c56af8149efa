"""Tiers and their limits, lanes, worker pools, promotion and skip prices."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from beacon_config.topology import Count, PositiveSeconds, Section
from beacon_contracts.model import Name
from beacon_contracts.tiers import JobClass


class TierConfig(Section):
    """A group of users; the first tier of the file has priority. A limit that is left out does not apply.

    Without any, the five of the shipped file apply.
    """

    job_class: JobClass = Field(
        default=JobClass.MEDIUM, alias="class", description="Queue and worker pool of its jobs"
    )
    pending_jobs: Count | None = Field(default=None, description="Unfinished jobs of a user")
    jobs_per_hour: Count | None = Field(default=None, description="Jobs that a user may submit in an hour")
    max_duration_s: PositiveSeconds | None = Field(
        default=None, description="Longest duration that a job may ask for"
    )
    executions_per_job: Count | None = Field(default=None, description="Executions of one job")
    requests_per_minute: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Requests of a user to /v1 in a minute"
    )
    concurrent_requests: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Requests of a user to /v1 at the same time"
    )
    streams: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Open event streams of a user"
    )
    models: list[Name] = Field(default_factory=list, description="Allowed models; empty: all")
    starvation_bound_s: PositiveSeconds = Field(
        default=60.0,
        description="Wait after which its head has priority over rank; at least that of a higher tier",
    )
    starvation_weight: Count = Field(
        default=1, description="Share of the tier when several are past their bounds"
    )

    def allows(self, model: str) -> bool:
        return not self.models or model in self.models


class LaneStrategy(StrEnum):
    PER_USER = "per_user"
    LEAST_LOADED = "least_loaded"
    HASH = "hash"
    SINGLE = "single"


class LanesConfig(Section):
    """FIFOs inside a class, served round-robin."""

    strategy: LaneStrategy = Field(
        default=LaneStrategy.PER_USER,
        description="How jobs are spread over lanes; only per_user isolates users",
    )
    count: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=20, description="Lanes of least_loaded and hash"
    )


class PoolConfig(Section):
    """Worker slots for classes of jobs."""

    slots: Annotated[int, Field(ge=1, le=10_000)] = Field(
        description="Jobs that the pool of a worker process handles at the same time"
    )
    classes: Annotated[list[JobClass], Field(min_length=1)] = Field(
        description="Its own class, then those that it helps when its own is empty"
    )
    strict: bool = Field(default=False, description="Serve the first class only")

    @property
    def served(self) -> list[JobClass]:
        """The classes whose jobs it runs: a strict pool serves its first class only."""
        return self.classes[:1] if self.strict else self.classes


class PromotionConfig(Section):
    """Raises the class of jobs that wait long."""

    low_to_medium_after_s: PositiveSeconds = Field(
        default=1800.0, description="Wait after which a job of class low becomes medium"
    )
    medium_to_high_after_s: PositiveSeconds = Field(
        default=3600.0, description="Wait after which a job of class medium becomes high"
    )
    check_every_s: PositiveSeconds = Field(default=300.0, description="Interval of the check")


class SkipPrice(Section):
    """The price for a job of at most `up_to_s` seconds; the last price has no limit."""

    up_to_s: PositiveSeconds | None = Field(
        default=None, description="Duration of the job; the last price has none"
    )
    price: Annotated[int, Field(ge=0, le=1_000_000)] = Field(description="Credit")


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
    "high": PoolConfig(slots=100, classes=[JobClass.HIGH]),
    "medium": PoolConfig(slots=100, classes=[JobClass.MEDIUM, JobClass.HIGH]),
    "low": PoolConfig(slots=100, classes=[JobClass.LOW, JobClass.MEDIUM, JobClass.HIGH]),
}
DEFAULT_SKIP_PRICES = [
    SkipPrice(up_to_s=10, price=1),
    SkipPrice(up_to_s=30, price=3),
    SkipPrice(up_to_s=60, price=5),
    SkipPrice(up_to_s=120, price=10),
    SkipPrice(price=15),
]
