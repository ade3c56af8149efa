"""What travels through Redis: small, and worthless without the row in Postgres that it points to."""

from dataclasses import field
from enum import StrEnum

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.record import record


class Topic(StrEnum):
    """The queue that an outbox row is meant for."""

    JOBS = "jobs"
    RETRY = "jobs:retry"
    DEAD = "jobs:dead"


@record
class Message:
    """The invitation to work on a job's stage once.

    `ticket` grows each time the job is queued anew (next stage, retry, resume, requeue), so (job, ticket)
    names the message: a copy that comes late is recognised by its old ticket and dropped.
    `lane` is empty until the queue has chosen one.
    """

    job: JobId
    ticket: int
    stage: int
    attempt: int
    job_class: JobClass
    lane: str
    written_id: str = field(
        default="", compare=False, repr=False
    )  # as the queue wrote it, which saves writing it
    grant: str = field(default="", compare=False, repr=False)  # see grants.py; most come without

    @property
    def id(self) -> str:
        return self.written_id or f"{self.job.hex}:{self.ticket}"


@record
class OutboxEntry:
    """A message on its way to a Redis queue. `front` is a paid skip; `batch` keeps a batch in one lane."""

    topic: Topic
    message: Message
    not_before: float | None = None
    front: bool = False
    batch: str | None = None
    reason: str | None = None
