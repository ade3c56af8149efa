"""What was paid for a job that never ran comes back in the transaction that ends it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from beacon_contracts.ids import JobId
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("credit")


async def refund(connection: "Connection", jobs: Sequence[JobId]) -> None:
    """Of these jobs, which have just ended, those of which nothing ran get their price back, once."""
    await connection.execute(_SQL["refund"], jobs)
