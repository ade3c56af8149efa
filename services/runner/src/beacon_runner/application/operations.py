"""Use cases: delete a job, change many jobs, delete a user."""

from dataclasses import dataclass

import structlog

from beacon_contracts.ids import InvalidIdError, JobId, OperationId, UserId, decode_job_id
from beacon_contracts.operations import BulkRequest, OperationAction
from beacon_runner.application.jobs import JobService
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.errors import (
    InvalidFieldsError,
    JobStateError,
    OperationNotFoundError,
    OwnUserError,
    QueueUnavailableError,
)
from beacon_runner.domain.jobs.operations import JobOperation, Selection
from beacon_runner.ports.operations import OperationStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OperationService:
    store: OperationStore
    jobs: JobService

    async def bulk(self, principal: Principal, request: BulkRequest, owner: UserId | None) -> JobOperation:
        """`owner`: whose jobs the filter is about; None are all users'."""
        if (request.filter is None) == (request.job_ids is None):
            raise InvalidFieldsError.of("filter", "give either a filter or job_ids")
        if request.job_ids is not None:
            selection = Selection(principal.owner, jobs=tuple(_job_ids(request.job_ids)))
        elif request.filter is not None and not request.filter.empty:
            selection = Selection(owner, selector=request.filter)
        else:
            raise InvalidFieldsError.of(
                "filter", "an empty filter would match every job; give at least one condition", "empty_filter"
            )
        return await self.store.add(
            principal.user, OperationAction(request.action), selection, by=principal.actor
        )

    async def get(self, operation: OperationId, owner: UserId | None) -> JobOperation:
        found = await self.store.get(operation, owner)
        if found is None:
            raise OperationNotFoundError
        return found

    async def delete_job(self, job: JobId, principal: Principal) -> None:
        record = await self.jobs.get(job, principal.owner)
        if not await self.store.delete_job(job, by=principal.actor):
            detail = "the job's executions are still being cancelled; try again soon"
            raise JobStateError(record.state, detail)
        try:
            await self.jobs.queue.forget_dead([job])
        except QueueUnavailableError as error:
            log.info("message_discard_failed", error=str(error))

    async def delete_user(self, user: UserId, principal: Principal) -> JobOperation:
        if user == principal.user:
            raise OwnUserError
        return await self.store.delete_user(user, principal.user, by=principal.actor)


def _job_ids(texts: list[str]) -> list[JobId]:
    jobs: list[JobId] = []
    for number, text in enumerate(texts):
        try:
            jobs.append(decode_job_id(text))
        except InvalidIdError as error:
            raise InvalidFieldsError.of(f"job_ids[{number}]", str(error)) from None
    return jobs
