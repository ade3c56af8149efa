"""Credit: payments for skips and the entries of the ledger."""

from dataclasses import dataclass
from datetime import datetime

from beacon_contracts.ids import JobId


@dataclass(frozen=True, slots=True)
class Payment:
    """What a skip cost, and the payer's credit after it."""

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
