"""The queue as routes without authentication show it: counts, positions, models; no users or prompts."""

from typing import Literal

from pydantic import Field

from beacon_contracts.jobs import JobState
from beacon_contracts.model import Name, RequestModel, ResponseModel
from beacon_contracts.router_status import SchedulerView
from beacon_contracts.tiers import Tier


class PublicJob(ResponseModel):
    """`position` numbers the list; running jobs come first."""

    id: str
    status: JobState
    model: str
    position: int


class PublicQueue(ResponseModel):
    """`queue_length` counts all jobs that wait or run; `jobs` are the first of them."""

    queue_length: int
    current_job: str | None = None
    jobs: list[PublicJob] = Field(default_factory=list)


class QueueEntry(PublicJob):
    """`priority` is the tier, or `skipped` after a paid skip."""

    duration: float | None = None
    priority: Tier | Literal["skipped"]
    progress: str
    progress_pct: int


class OwnQueueEntry(QueueEntry):
    """A job of the user whose key was sent, or any job for an operator."""

    mine: Literal[True] = True
    name: str


class QueueEntries(ResponseModel):
    """The first jobs of the queue, with their progress; `total` counts all."""

    jobs: list[OwnQueueEntry | QueueEntry]
    total: int


class QueueCounts(ResponseModel):
    """How many jobs run, wait, and wait for a retry."""

    running: int = 0
    waiting: int = 0
    retrying: int = 0


class RunnerStatus(ResponseModel):
    """`estimated_wait`: seconds that a new job of the model would wait; None while nothing can run it."""

    status: str
    scheduler: SchedulerView
    estimated_wait: dict[str, float | None]
    queue: QueueCounts


class Generate(RequestModel):
    """The short form of a generation."""

    prompt: str = Field(min_length=1, max_length=100_000, pattern=r"^[^\x00]*$")
    model: Name
    duration: float | None = Field(default=None, strict=True, gt=0, le=86_400)
    loop: bool = False
    region: Name | None = None
