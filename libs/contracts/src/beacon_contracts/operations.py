"""Operations on many jobs, and their progress."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from beacon_contracts.jobs import JobState, MetadataKey, MetadataValue, Tag
from beacon_contracts.model import Moment, Name, RequestModel, ResponseModel, Text

JobIdText = Annotated[Text, Field(max_length=80)]


class JobSelector(RequestModel):
    """Jobs by the filters of the list of jobs: a job must match all that are given."""

    status: Annotated[list[JobState], Field(max_length=20)] = Field(default_factory=list)
    kind: Literal["matrix", "pipeline", "generation"] | None = None
    model: Name | None = None
    tag: Annotated[list[Tag], Field(max_length=16)] = Field(default_factory=list)
    metadata: Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)] = Field(default_factory=dict)
    name: Annotated[Text, Field(min_length=1, max_length=200)] | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None
    user: Annotated[str, Field(max_length=80)] | None = Field(
        default=None, description="Jobs of this user; needs an admin key"
    )
    all_users: bool = Field(default=False, description="All users' jobs; needs an admin key")

    @property
    def empty(self) -> bool:
        """Nothing is selected: every job would match."""
        return self == JobSelector(all_users=self.all_users)


class BulkAction(StrEnum):
    """`resume`: jobs that expired, or failed in a way that can be retried. `retry`: whatever the failure."""

    CANCEL = "cancel"
    RESUME = "resume"
    RETRY = "retry"
    DELETE = "delete"


class BulkRequest(RequestModel):
    """An action on the jobs of a filter, or on given jobs."""

    action: BulkAction
    filter: JobSelector | None = None
    job_ids: Annotated[list[JobIdText], Field(min_length=1, max_length=10_000)] | None = None


class OperationAction(StrEnum):
    """What an operation does."""

    CANCEL = "cancel"
    RESUME = "resume"
    RETRY = "retry"
    DELETE = "delete"
    DELETE_USER = "delete_user"


class OperationState(StrEnum):
    """Whether an operation has visited all of its jobs."""

    RUNNING = "running"
    FINISHED = "finished"


class OperationView(ResponseModel):
    """`matched`: jobs that were visited; `changed`: those of them that the action changed."""

    operation_id: str
    action: OperationAction
    state: OperationState
    matched: int
    changed: int
    total: int | None = Field(default=None, description="Known for an operation on given jobs")
    created_at: datetime
    finished_at: datetime | None = None
