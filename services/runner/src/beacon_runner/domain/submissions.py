"""New jobs, and what became of them."""

from dataclasses import dataclass
from typing import NamedTuple

from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass, Tier
from beacon_runner.domain.admission import AdmittedJob
from beacon_runner.domain.limits.job_quota import Allowance, LimitReached


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


Known = Submitted | KeyTaken
Answer = Known | LimitReached
