"""Credit: paying to go first, and the money that comes back by itself when that was for nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from beacon_contracts.ids import JobId, UserId
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.classes import better
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.job_commands import NoSuchJobError, WrongStateError
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("credit")

WAITING = (JobState.QUEUED, JobState.RETRYING)

Pricing = Callable[[Mapping[str, Any]], int]


class NotEnoughToSkipError(Exception):
    """The price is more than the user has."""

    def __init__(self, price: int, credit: int) -> None:
        super().__init__(f"going first costs {price}, and you have {credit}")
        self.price = price
        self.credit = credit


class AlreadyFirstError(Exception):
    """The job has paid to go first already."""


@dataclass(frozen=True, slots=True)
class Paid:
    price: int
    credit: int


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    id: int
    at: datetime
    entry: str
    amount: int
    balance: int
    job: JobId | None
    refunds: int | None
    note: str


class Credit:
    def __init__(self, database: Database, price_of: Pricing, front_class: JobClass) -> None:
        self._database = database
        self._price_of = price_of
        self._front_class = front_class

    async def skip(self, job: JobId, owner: UserId | None, payer: UserId) -> Paid:
        """Pay and go first in one transaction. A job that has started is refused, and nothing is charged."""
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(_SQL["lock_waiting"], job)
            if row is None or (owner is not None and row["user_id"] != owner):
                raise NoSuchJobError
            _check_that_it_waits(row)
            price = self._price_of(row["spec"])
            credit = await _charge(connection, payer, price, job)
            job_class = better(JobClass(row["class"]), self._front_class)
            await connection.execute(_SQL["go_first"], job, price, job_class)
            return Paid(price, credit)

    async def ledger(self, user: UserId, before: int | None, limit: int) -> list[LedgerRecord]:
        """Newest first."""
        rows = await self._database.fetch(_SQL["ledger_page"], user, before, limit)
        return [LedgerRecord(*row) for row in rows]


def _check_that_it_waits(row: Any) -> None:
    state = JobState(row["state"])
    if state in WAITING and row["deferred"]:
        raise WrongStateError(state, "it waits for its next attempt, not for its turn")
    if state not in WAITING:
        raise WrongStateError(state, f"a job that is {state} cannot go first any more")
    if row["front"]:
        raise AlreadyFirstError


async def _charge(connection: "Connection", payer: UserId, price: int, job: JobId) -> int:
    """What the payer has left."""
    if price == 0:
        return int(await connection.fetchval(_SQL["credit_of"], payer))
    left = await connection.fetchval(_SQL["charge"], payer, price, job)
    if left is None:
        raise NotEnoughToSkipError(price, int(await connection.fetchval(_SQL["credit_of"], payer)))
    return int(left)
