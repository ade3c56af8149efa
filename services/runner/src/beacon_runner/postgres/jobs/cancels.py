"""Cancels that the routers have not confirmed. They are durable: any process can repeat them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beacon_config import BeaconConfig
from beacon_contracts.ids import JobId
from beacon_contracts.inference import RemoteRun
from beacon_runner.domain.execution.plan import unfinished
from beacon_runner.ports.cancels import CancelledRun, RouterCancel
from beacon_runner.postgres.accounts.credit import refund
from beacon_runner.postgres.database import Database, retry_on_conflict
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("cancels")
FIRST_TRY_S = 3.0  # until then only the process that cancelled tries


def max_router_cancels(config: BeaconConfig) -> int:
    """How many unrecorded executions of a job may be at the routers: those that run, and as many that have
    ended there and are not recorded yet."""
    return 2 * config.limits.job_parallelism


class PostgresCancels:
    def __init__(self, database: Database, *, max_executions: int) -> None:
        self._database = database
        self._max_executions = max_executions

    async def take(self, limit: int) -> Sequence[RouterCancel]:
        async with self._database.transaction() as connection:
            rows = await connection.fetch(_SQL["take"], limit)
            return [
                await cancel_of(
                    connection, row, row["fence"], row["age_s"], self._max_executions, resumed=row["resumed"]
                )
                for row in rows
            ]

    @retry_on_conflict
    async def settle(self, job: JobId, fence: int, runs: Sequence[CancelledRun]) -> None:
        """Remove the request; in the same transaction record the runs, or refund the price."""
        async with self._database.transaction() as connection:
            resumed = await connection.fetchval(_SQL["settle"], job, fence)
            if resumed is None:
                return
            if runs:
                await connection.execute(_SQL["record_runs"], job, [_run(run) for run in runs])
            elif not resumed:
                await refund(connection, [job])


def _run(run: CancelledRun) -> dict[str, Any]:
    return {
        **run.execution._asdict(),
        "actual_region": run.view.actual_region,
        "backend": run.view.backend,
        **run.view.timing.model_dump(),
    }


async def request_router_cancel(connection: "Connection", job: JobId, fence: int) -> int:
    """The fence of the cancel."""
    return int(await connection.fetchval(_SQL["request_router_cancel"], job, fence, FIRST_TRY_S))


async def cancel_of(
    connection: "Connection", row: Any, fence: int, age_s: float, most: int, *, resumed: bool = False
) -> RouterCancel:
    """The runs at backends belong to a job that was resumed: it continues them.

    Starts are not always recorded, so any execution that has not ended may be running, up to a bound.
    """
    found = await connection.fetch(_SQL["executions_at_cancel"], row["id"], row["stage"])
    remotes = {
        one["ordinal"]: RemoteRun.model_validate(one["remote"])
        for one in found
        if one["remote"] is not None and not resumed
    }
    left = unfinished(row["spec"], row["stage"], {one["ordinal"] for one in found if one["ended"]})
    left.sort(key=lambda key: key.ordinal not in remotes)
    started = frozenset(one["ordinal"] for one in found if one["started"])
    return RouterCancel(JobId(row["id"]), fence, tuple(left[:most]), age_s, remotes, started)
