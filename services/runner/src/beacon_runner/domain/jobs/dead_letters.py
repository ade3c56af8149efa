"""Dead letters: jobs that are not retried automatically any more."""

from dataclasses import dataclass
from datetime import datetime

from beacon_contracts.failures import Failure
from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass


@dataclass(frozen=True, slots=True)
class DeadLetterCursor:
    """A position in the list of dead letters, valid also after that letter was removed."""

    died_at: datetime
    job: JobId


@dataclass(frozen=True, slots=True)
class DeadLetter:
    job: JobId
    user: UserId
    kind: str
    name: str
    state: JobState
    job_class: JobClass
    stage: int
    attempt: int
    reason: str
    failure: Failure
    died_at: datetime

    @property
    def cursor(self) -> DeadLetterCursor:
        return DeadLetterCursor(self.died_at, self.job)
