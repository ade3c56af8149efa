"""Messages in Redis: small references to a job's row in Postgres."""

from enum import StrEnum
from typing import NamedTuple

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass


class Topic(StrEnum):
    """The queue that an outbox row is meant for."""

    JOBS = "jobs"
    RETRY = "jobs:retry"
    DEAD = "jobs:dead"


class Message(NamedTuple):
    """A request to work on a job's stage once.

    `generation` is incremented each time the job is queued again (next stage, retry, resume, requeue), so
    (job, generation) identifies the message: a late copy has an old generation and is dropped.
    `lane` is empty until the queue has chosen one.
    """

    job: JobId
    generation: int
    stage: int
    attempt: int
    job_class: JobClass
    lane: str

    @property
    def id(self) -> str:
        return f"{self.job.hex}:{self.generation}"


class OutboxEntry(NamedTuple):
    """A message on its way to a Redis queue.

    `front` is a paid skip; `batch` keeps a batch in one lane; `row` is the id of its outbox row.
    """

    topic: Topic
    message: Message
    not_before: float | None = None
    front: bool = False
    batch: str | None = None
    row: int = 0
