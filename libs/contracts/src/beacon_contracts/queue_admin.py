"""The runner's queues for operators: depths, lanes, dead letters."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field

from beacon_contracts.failures import Failure
from beacon_contracts.model import RequestModel, ResponseModel, Text
from beacon_contracts.tiers import JobClass


class ClassStats(ResponseModel):
    """Messages of a class, and whether it is paused."""

    name: JobClass
    waiting: int
    front: int = 0
    paused: bool = False


class LaneStats(ResponseModel):
    """Pending and running jobs of a lane."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    job_class: JobClass = Field(alias="class")
    lane: str
    pending: int
    running: int


class OutboxStats(ResponseModel):
    """Messages that are not published yet."""

    pending: int
    lag_s: float


class RuntimeStats(ResponseModel):
    """Depth of main, retry and dead; leases; outbox lag; the age of the oldest waiting job."""

    main: int
    retry: int
    dead: int
    leases: int
    outbox: OutboxStats | None = None
    oldest_age_s: float | None = None
    classes: list[ClassStats] = Field(default_factory=list)
    lanes: list[LaneStats] = Field(default_factory=list)


class DeadLetterView(ResponseModel):
    """A job that is not retried automatically any more, with the reason."""

    job_id: str
    reason: str
    failure: Failure | None = None
    died_at: datetime
    stage: int = 0
    attempt: int = 0
    user_id: str | None = None
    kind: str = ""
    name: str = ""
    status: str = ""
    priority: JobClass | None = None


class DeadLetterPage(ResponseModel):
    """Dead letters, newest first."""

    dead_letters: list[DeadLetterView]
    total: int
    next_cursor: str | None = None


class DeadLetterChoice(RequestModel):
    """The given dead letters, or all of them."""

    job_ids: Annotated[list[Annotated[Text, Field(max_length=80)]], Field(max_length=10_000)] | None = None
    all: bool = False


class AffectedCount(ResponseModel):
    """The number of changed items."""

    count: int
