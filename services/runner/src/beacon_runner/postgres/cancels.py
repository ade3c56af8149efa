"""Cancels that the routers are still to be told of: durable, so that no process has to live for it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beacon_config import BeaconConfig
from beacon_contracts.ids import JobId
from beacon_runner.domain.plan import unfinished
from beacon_runner.ports.cancels import RouterCancel
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.refunds import refund
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("cancels")
FIRST_TRY_S = 3.0  # how long the process that cancelled has the first try to itself


def most_places(config: BeaconConfig) -> int:
    """How much of a job may be at the routers, of what is not recorded as ended: what runs, and as much again
    that has ended and is not recorded yet."""
    return 2 * config.limits.job_parallelism


class PostgresCancels:
    def __init__(self, database: Database, *, most_places: int) -> None:
        self._database = database
        self._most_places = most_places

    async def take(self, limit: int) -> Sequence[RouterCancel]:
        async with self._database.transaction() as connection:
            rows = await connection.fetch(_SQL["take"], limit)
            return [await cancel_of(connection, row, row["age_s"], self._most_places) for row in rows]

    async def settle(self, job: JobId, *, ran: bool) -> None:
        """Forget the trace, and give back in the same step what was paid for nothing; once."""
        async with self._database.transaction() as connection:
            first = await connection.fetchval(_SQL["settle"], job)
            if first is not None and not ran:
                await refund(connection, [job])


async def leave_trace(connection: "Connection", job: JobId) -> None:
    await connection.execute(_SQL["leave_trace"], job, FIRST_TRY_S)


async def cancel_of(connection: "Connection", row: Any, age_s: float, most: int) -> RouterCancel:
    """Starts are not always recorded, so all that has not ended may be running, up to a bound."""
    ended = await connection.fetch(_SQL["ended_ordinals"], row["id"], row["stage"])
    left = unfinished(row["spec"], row["stage"], {found["ordinal"] for found in ended})
    return RouterCancel(JobId(row["id"]), row["fence"], tuple(left[:most]), age_s)
