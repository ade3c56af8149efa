"""Events of a job, numbered per job so that a reconnecting client misses none."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from beacon_contracts.inference import RunProgress
from beacon_contracts.model import ResponseModel


class EventType(StrEnum):
    """The types of a job's events."""

    JOB_SCHEDULED = "JOB_SCHEDULED"
    JOB_QUEUED = "JOB_QUEUED"
    QUEUE_POSITION = "QUEUE_POSITION"
    WAITING = "WAITING"
    STEP_START = "STEP_START"
    STEP_COMPLETE = "STEP_COMPLETE"
    EXECUTION_QUEUED = "EXECUTION_QUEUED"
    EXECUTION_START = "EXECUTION_START"
    EXECUTION_PROGRESS = "EXECUTION_PROGRESS"
    EXECUTION_COMPLETE = "EXECUTION_COMPLETE"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    JOB_RETRYING = "JOB_RETRYING"
    JOB_PROMOTED = "JOB_PROMOTED"
    JOB_SKIPPED = "JOB_SKIPPED"
    JOB_COMPLETE = "JOB_COMPLETE"
    JOB_PARTIAL = "JOB_PARTIAL"
    JOB_FAILED = "JOB_FAILED"
    JOB_CANCELLED = "JOB_CANCELLED"
    JOB_EXPIRED = "JOB_EXPIRED"


class ExecutionProgress(RunProgress):
    """The data of an `EXECUTION_PROGRESS` event."""

    execution_id: str
    item: str
    model: str
    region: str
    attempt: int


class JobEvent(ResponseModel):
    """One event of a job; `seq` grows by one with each event of the job.

    Of each execution only the newest `EXECUTION_PROGRESS` is kept: the numbers of earlier ones are missing.
    """

    seq: int
    type: EventType
    job_id: str
    at: datetime
    data: dict[str, Any] = Field(default_factory=dict)

    @property
    def progress(self) -> ExecutionProgress | None:
        """The data of an `EXECUTION_PROGRESS` event; None for other types."""
        if self.type is not EventType.EXECUTION_PROGRESS:
            return None
        return ExecutionProgress.model_validate(self.data)


class EventPage(ResponseModel):
    """The events so far; `more`: the job can have further events."""

    events: list[JobEvent]
    more: bool
