"""The ledger of credit, and refunds of payments for jobs that never ran."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from beacon_contracts.audit import AuditAction
from beacon_contracts.ids import USER, JobId, UserId, encode_id
from beacon_runner.domain.accounts.audit import SYSTEM, Actor
from beacon_runner.domain.accounts.credit import LedgerRecord
from beacon_runner.postgres.accounts.audit import add_entry
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("credit")


class PostgresCredit:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def change(self, user: UserId, amount: int, note: str, *, by: Actor = SYSTEM) -> int | None:
        """The new balance; None when it would leave its bounds or there is no such user."""
        async with self._database.transaction() as connection:
            balance: int | None = await connection.fetchval(_SQL["change_credit"], user, amount, note)
            if balance is not None:
                details = {"amount": amount, "balance": balance}
                await add_entry(connection, by, AuditAction.CREDIT_CHANGED, encode_id(USER, user), details)
        return balance

    async def ledger(self, user: UserId, before: int | None, limit: int) -> list[LedgerRecord]:
        """Newest first."""
        rows = await self._database.fetch(_SQL["ledger_page"], user, before, limit)
        return [LedgerRecord(*row) for row in rows]


async def refund(connection: "Connection", jobs: Sequence[JobId]) -> None:
    """In the transaction that ends them: refund those of these jobs of which nothing ran; at most once."""
    await connection.execute(_SQL["refund"], jobs)
