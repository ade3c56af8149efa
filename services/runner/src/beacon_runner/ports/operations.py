"""Storing operations on many jobs, and doing them step by step."""

from collections.abc import Sequence
from typing import Protocol

from beacon_contracts.ids import JobId, OperationId, UserId
from beacon_contracts.operations import OperationAction
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.jobs.operations import JobOperation, OperationStep, Selection
from beacon_runner.domain.queue.messages import Message


class OperationStore(Protocol):
    async def add(
        self, user: UserId, action: OperationAction, selection: Selection, *, by: Actor = ...
    ) -> JobOperation: ...

    async def get(self, operation: OperationId, owner: UserId | None) -> JobOperation | None:
        """`owner` None: of any user."""
        ...

    async def delete_job(self, job: JobId, *, by: Actor = ...) -> bool:
        """Delete a job that has ended; false while something of it may run."""
        ...

    async def delete_user(self, user: UserId, requester: UserId, *, by: Actor = ...) -> JobOperation:
        """Disable the user, cancel its jobs, and store the operation that deletes its data."""
        ...


class OperationSteps(Protocol):
    async def step(self, limit: int) -> OperationStep | None:
        """Do the next jobs of the operation that has waited longest; None without any."""
        ...

    async def forget(self, finished_s: float) -> None:
        """Remove operations that finished so long ago."""
        ...


class ChangedJobQueue(Protocol):
    """What the queue does about jobs that were changed outside of it."""

    async def discard(self, messages: Sequence[Message]) -> int: ...

    async def notify_watchers(self, job: JobId) -> None: ...

    async def forget_dead(self, jobs: Sequence[JobId] | None) -> int: ...
