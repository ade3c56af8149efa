"""Operations on many jobs: which jobs, and how far they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from beacon_contracts.ids import JobId, OperationId, UserId
from beacon_contracts.operations import JobSelector, OperationAction
from beacon_runner.domain.jobs.job_filter import JobFilter
from beacon_runner.domain.queue.messages import Message


@dataclass(frozen=True, slots=True)
class Selection:
    """The jobs of a filter, or given ones; of one user, or of all if `owner` is None."""

    owner: UserId | None
    selector: JobSelector | None = None
    jobs: tuple[JobId, ...] | None = None

    @property
    def filter(self) -> JobFilter:
        return JobFilter.of(self.selector or JobSelector(), self.owner)

    def document(self) -> dict[str, Any]:
        return {
            "owner": None if self.owner is None else self.owner.hex,
            "filter": None if self.selector is None else self.selector.model_dump(mode="json"),
            "jobs": None if self.jobs is None else [job.hex for job in self.jobs],
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Selection":
        owner, selector, jobs = document["owner"], document["filter"], document["jobs"]
        return cls(
            None if owner is None else UserId(UUID(owner)),
            None if selector is None else JobSelector.model_validate(selector),
            None if jobs is None else tuple(JobId(UUID(job)) for job in jobs),
        )


@dataclass(frozen=True, slots=True)
class JobOperation:
    id: OperationId
    user: UserId
    action: OperationAction
    selection: Selection
    matched: int
    changed: int
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class OperationStep:
    """What one step did, for the queue: jobs that ended, that were deleted, and whether any were queued."""

    changed: int
    ended: tuple[Message, ...] = ()
    deleted: tuple[JobId, ...] = ()
    queued: bool = False
    waits: bool = False
    """Something has to happen first, such as an answer of a router."""
