"""Refunds of payments for jobs that never ran, in the transaction that ends them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from beacon_contracts.ids import JobId
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("credit")


async def refund(connection: "Connection", jobs: Sequence[JobId]) -> None:
    """Refund those of these ended jobs of which nothing ran since the payment; at most once."""
    await connection.execute(_SQL["refund"], jobs)
