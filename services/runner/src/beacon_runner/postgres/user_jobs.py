"""The live jobs of a user who is disabled or enabled, changed in the same transaction as the user."""

from typing import TYPE_CHECKING

from beacon_contracts.accounts import DisabledJobs
from beacon_contracts.events import EventType
from beacon_contracts.ids import UserId
from beacon_runner.domain.stage_result import EventDraft
from beacon_runner.postgres.credit import refund
from beacon_runner.postgres.report_params import encode_events
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("user_jobs")


async def stop_jobs(connection: "Connection", user: UserId, jobs: DisabledJobs) -> None:
    """Claims skip jobs of disabled users: messages of held jobs are dropped, and queued by the release."""
    if jobs is DisabledJobs.HOLD:
        await connection.execute(_SQL["hold"], user)
        return
    events = encode_events([EventDraft(EventType.JOB_CANCELLED, {"reason": "the user was disabled"})])
    waited = await connection.fetch(_SQL["cancel_all"], user, events)
    await refund(connection, [row["id"] for row in waited])


async def release_jobs(connection: "Connection", user: UserId) -> None:
    await connection.execute(_SQL["release"], user)
