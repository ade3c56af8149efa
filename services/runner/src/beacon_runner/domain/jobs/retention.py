"""What is removed of old jobs, and when. The store finds old jobs and removes what is decided here."""

from dataclasses import dataclass
from enum import StrEnum

from beacon_config.retention import RetentionConfig
from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from beacon_runner.domain.jobs.states import TERMINAL


class Removal(StrEnum):
    JOBS = "jobs"
    EVENTS = "events"
    IDEMPOTENCY_KEYS = "idempotency_keys"


@dataclass(frozen=True, slots=True)
class RetentionCandidate:
    """A job as it was found: seconds since its submission and since its end, None while it is live."""

    id: JobId
    state: JobState
    generation: int
    submitted_s: float
    ended_s: float | None


def kept_s(removal: Removal, retention: RetentionConfig) -> float:
    """How long it is kept: an idempotency key after the submission, all else after the end of the job."""
    match removal:
        case Removal.JOBS:
            return retention.jobs_s
        case Removal.EVENTS:
            return retention.events_s
        case Removal.IDEMPOTENCY_KEYS:
            return retention.idempotency_s


def is_expired(removal: Removal, job: RetentionCandidate, retention: RetentionConfig) -> bool:
    """A live job keeps its row and its events, whatever its age."""
    if removal is Removal.IDEMPOTENCY_KEYS:
        return job.submitted_s > kept_s(removal, retention)
    return job.state in TERMINAL and job.ended_s is not None and job.ended_s > kept_s(removal, retention)
