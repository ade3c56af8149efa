"""Live jobs that end or stop with others: of a user who is disabled, expired, or cancelled in bulk."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from beacon_contracts.accounts import DisabledJobs
from beacon_contracts.events import EventType
from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import JobState
from beacon_runner.domain.execution.stage_result import EventDraft
from beacon_runner.domain.queue.messages import Message
from beacon_runner.postgres.accounts.credit import refund
from beacon_runner.postgres.jobs.outbox import message_of
from beacon_runner.postgres.jobs.report_params import encode_events
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("user_jobs")


async def stop_jobs(connection: "Connection", user: UserId, jobs: DisabledJobs) -> None:
    """Claims skip jobs of disabled users: messages of held jobs are dropped, and queued by the release."""
    live = [JobId(row["id"]) for row in await connection.fetch(_SQL["lock_live_jobs_of_user"], user)]
    if jobs is DisabledJobs.HOLD:
        await connection.execute(_SQL["hold"], user)
        return
    event = EventDraft(EventType.JOB_CANCELLED, {"reason": "the user was disabled"})
    await end_jobs(connection, live, JobState.CANCELLED, event)


async def end_jobs(
    connection: "Connection", jobs: Sequence[JobId], state: JobState, event: EventDraft
) -> list[Message]:
    """End those of the jobs that are live; their messages, which Redis may still have."""
    await connection.execute(_SQL["lock_live_jobs"], jobs)
    rows = await connection.fetch(_SQL["end_jobs"], jobs, state, encode_events([event]))
    await refund(connection, [row["id"] for row in rows if row["refund"]])
    return [message_of(row) for row in rows]


async def release_jobs(connection: "Connection", user: UserId) -> None:
    await connection.execute(_SQL["release"], user)
