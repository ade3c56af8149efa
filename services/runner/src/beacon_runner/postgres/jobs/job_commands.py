"""Stores what was decided about a job: cancel, resume, retry one execution, skip."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from beacon_contracts.audit import AuditAction
from beacon_contracts.events import EventType
from beacon_contracts.ids import JobId, UserId, encode_job_id
from beacon_runner.domain.accounts.credit import Payment
from beacon_runner.domain.errors import InsufficientCreditError, JobChangedError
from beacon_runner.domain.execution.stage_result import EventDraft
from beacon_runner.domain.jobs.commands import CancelDecision, JobVersion, RetryDecision, SkipDecision
from beacon_runner.ports.cancels import RouterCancel
from beacon_runner.postgres.accounts.audit import add_entry
from beacon_runner.postgres.accounts.credit import refund
from beacon_runner.postgres.database import Database, retry_on_conflict
from beacon_runner.postgres.jobs.cancels import cancel_of, request_router_cancel
from beacon_runner.postgres.jobs.report_params import encode_events
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("job_commands")
_RESULTS = statements("results")
_CREDIT = statements("credit")


class PostgresJobCommands:
    """Every command locks the job's row first and fails if the job has changed since it was read."""

    def __init__(self, database: Database, *, max_router_cancels: int) -> None:
        self._database = database
        self._max_router_cancels = max_router_cancels

    @retry_on_conflict
    async def cancel(self, version: JobVersion, decision: CancelDecision) -> RouterCancel | None:
        """The executions that may be at a router; the request to cancel them is stored too."""
        async with self._unchanged(version, AuditAction.JOB_CANCELLED) as connection:
            row = await connection.fetchrow(_SQL["cancel"], version.id)
            if row is None:
                raise JobChangedError
            await connection.execute(_SQL["cancel_executions"], version.id)
            at_router = None
            if decision.at_router:
                fence = await request_router_cancel(connection, version.id, row["fence"])
                at_router = await cancel_of(connection, row, fence, 0.0, self._max_router_cancels)
            if decision.refund:
                await refund(connection, [version.id])
            events = encode_events([EventDraft(EventType.JOB_CANCELLED)])
            await connection.execute(_SQL["add_event"], version.id, row["event_seq"], events)
            return at_router

    @retry_on_conflict
    async def resume(self, version: JobVersion) -> None:
        async with self._unchanged(version, AuditAction.JOB_RESUMED) as connection:
            await connection.execute(_SQL["lock_users_of_waits"], [version.id])
            await connection.execute(_RESULTS["try_again"], [version.id], False, None)
            await _requeue(connection, version.id, 1, "resumed")

    @retry_on_conflict
    async def retry_execution(self, version: JobVersion, ordinal: int, decision: RetryDecision) -> None:
        async with self._unchanged(version, AuditAction.EXECUTION_RETRIED) as connection:
            await connection.execute(_RESULTS["try_again"], [version.id], False, ordinal)
            if decision.attempt is not None:
                await _requeue(connection, version.id, decision.attempt, "retry")
            else:
                await connection.execute(_RESULTS["recount"], [version.id])

    @retry_on_conflict
    async def skip(self, version: JobVersion, decision: SkipDecision, payer: UserId) -> Payment:
        async with self._unchanged(version, AuditAction.JOB_SKIPPED) as connection:
            credit = await _charge(connection, payer, decision.price, version.id)
            await connection.execute(
                _CREDIT["skip"], version.id, decision.price, decision.job_class, decision.requeue
            )
            return Payment(decision.price, credit)

    async def add_position_event(self, version: JobVersion, event: EventDraft, position: int) -> bool:
        """False when the job has changed, or its last event has the same position."""
        seq = await self._database.fetchval(
            _SQL["add_position_event"],
            version.id,
            version.state,
            version.generation,
            event.type,
            position,
            encode_events([event]),
        )
        return seq is not None

    @asynccontextmanager
    async def _unchanged(self, version: JobVersion, action: AuditAction) -> AsyncIterator["Connection"]:
        async with self._database.transaction() as connection:
            compared = version.id, version.state, version.generation, version.fence, version.front
            if await connection.fetchrow(_SQL["lock_version"], *compared) is None:
                raise JobChangedError
            if version.operator is not None:
                await add_entry(connection, version.operator, action, encode_job_id(version.id), {})
            yield connection


async def _requeue(connection: "Connection", job: JobId, attempt: int, reason: str) -> None:
    event = EventDraft(EventType.JOB_QUEUED, {"reason": reason})
    await connection.fetch(_SQL["requeue"], [job], [attempt], encode_events([event]))
    await connection.execute(_RESULTS["recount"], [job])


async def _charge(connection: "Connection", payer: UserId, price: int, job: JobId) -> int:
    """The payer's credit after the payment."""
    if price == 0:
        return int(await connection.fetchval(_CREDIT["credit_of"], payer))
    left = await connection.fetchval(_CREDIT["charge"], payer, price, job)
    if left is None:
        raise InsufficientCreditError(price, int(await connection.fetchval(_CREDIT["credit_of"], payer)))
    return int(left)
