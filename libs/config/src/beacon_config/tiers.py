"""Tiers and their limits."""

from typing import Annotated

from pydantic import Field

from beacon_config.section import Count, FileBytes, PositiveSeconds, Section
from beacon_contracts.model import Name
from beacon_contracts.tiers import JobClass


class TierConfig(Section):
    """A group of users; the first tier of the file has priority. A limit that is left out does not apply.

    Without this section, the five tiers of the shipped file apply.
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
    in_flight_executions: Count | None = Field(
        default=None, description="Executions of a user's unfinished jobs together"
    )
    gpu_seconds_per_day: Count | None = Field(
        default=None, description="GPU seconds of a user from midnight to midnight, UTC"
    )
    requests_per_minute: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Requests of a user to /v1 in a minute"
    )
    concurrent_requests: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Requests of a user to /v1 at the same time"
    )
    streams: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Open event streams of a user"
    )
    storage_bytes: FileBytes | None = Field(default=None, description="Sum of the files of a user")
    models: list[Name] = Field(default_factory=list, description="Allowed models; empty: all")
    starvation_bound_s: PositiveSeconds = Field(
        default=60.0,
        description="Wait after which the first request of the tier has priority over rank; at least the "
        "bound of a higher tier",
    )
    starvation_weight: Count = Field(
        default=1, description="Share of the tier when several are past their bounds"
    )

    def allows(self, model: str) -> bool:
        return not self.models or model in self.models


def _tier(job_class: JobClass, bound_s: float, weight: int, **limits: float) -> TierConfig:
    fields = {"class": job_class, "starvation_bound_s": bound_s, "starvation_weight": weight}
    return TierConfig.model_validate(fields | limits)


def _limits(
    jobs: tuple[int, int, int], executions: int, requests: tuple[int, int], streams: int, storage_gb: int
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
        "storage_bytes": storage_gb * 1_000_000_000,
    }


DEFAULT_TIERS = {
    "admin": _tier(JobClass.HIGH, 30, 16),
    "creator": _tier(JobClass.HIGH, 45, 8, **_limits((20, 60, 180), 10_000, (300, 32), 64, 50)),
    "premium": _tier(JobClass.MEDIUM, 60, 4, **_limits((10, 30, 120), 2_000, (120, 16), 32, 20)),
    "supporter": _tier(JobClass.MEDIUM, 90, 2, **_limits((5, 15, 60), 500, (60, 8), 16, 5)),
    "free": _tier(JobClass.LOW, 120, 1, **_limits((2, 3, 30), 100, (20, 4), 8, 1)),
}
