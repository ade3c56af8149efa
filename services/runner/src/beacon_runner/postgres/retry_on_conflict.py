"""Tries a transaction again that lost to another one."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.postgres.errors import CONFLICTS

T = TypeVar("T")

TRIES = 5


async def retried(transaction: Callable[[], Awaitable[T]]) -> T:
    """The result of the first try that met no deadlock; the database has waited already, so we do not."""
    for _ in range(TRIES - 1):
        try:
            return await transaction()
        except CONFLICTS:
            continue
    try:
        return await transaction()
    except CONFLICTS as error:
        raise StoreUnavailableError(f"lost to other transactions {TRIES} times: {error}") from error
