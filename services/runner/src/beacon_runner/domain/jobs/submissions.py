"""New jobs, and what became of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from beacon_contracts.ids import JobId, KeyId, UserId
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass, Tier
from beacon_runner.domain.jobs.admission import AdmittedJob
from beacon_runner.domain.limits.job_quota import Allowance, LimitReached


@dataclass(frozen=True, slots=True)
class Schedule:
    """`not_before`: in the future. `may_wait`: for the limits of its user; `waits`: it does."""

    not_before: datetime | None = None
    expires_at: datetime | None = None
    may_wait: bool = False
    waits: bool = False


class NewJob(NamedTuple):
    """A job to be stored; `batch`: it was submitted together with others."""

    id: JobId
    user: UserId
    tier: Tier
    job_class: JobClass
    lane: str
    admitted: AdmittedJob
    batch: bool = False
    allowance: Allowance | None = None
    idempotency_key: str | None = None
    request_hash: bytes | None = None
    webhook: Mapping[str, Any] | None = None
    schedule: Schedule | None = None
    key: KeyId | None = None

    @property
    def state(self) -> JobState:
        """Its first state."""
        schedule = self.schedule
        later = schedule is not None and (schedule.waits or schedule.not_before is not None)
        return JobState.SCHEDULED if later else JobState.QUEUED

    def waiting(self) -> "NewJob":
        """The job, waiting for a limit of its user."""
        return self._replace(schedule=replace(self.schedule or Schedule(), waits=True))


class Submitted(NamedTuple):
    """A stored job; `created` is false when an earlier request with the same idempotency key stored it."""

    id: JobId
    state: JobState
    tier: Tier
    job_class: JobClass
    created: bool


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """The idempotency key was used for another request."""

    job: JobId


@dataclass(frozen=True, slots=True)
class FilesUnusable:
    """The input names files that do not exist, have expired or are another user's: their fields.

    Without fields, it is another job of the batch that names them.
    """

    fields: tuple[str, ...] = ()


Known = Submitted | KeyTaken
Answer = Known | LimitReached | FilesUnusable
