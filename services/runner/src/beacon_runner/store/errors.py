"""What can go wrong with the truth, in the runner's own words."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from beacon_runner.domain.ports import StoreUnavailableError

_UNAVAILABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.exceptions.CannotConnectNowError,
    asyncpg.exceptions.OperatorInterventionError,
    asyncpg.exceptions.InsufficientResourcesError,
    asyncpg.exceptions.InternalClientError,
    # We stood still inside a transaction and the server ended it, or it has become a standby that only reads.
    asyncpg.exceptions.InvalidTransactionStateError,
)

# Two writers of the same rows in another order: one of them was told to try again.
CONFLICTS = (asyncpg.exceptions.DeadlockDetectedError, asyncpg.exceptions.SerializationError)


@contextmanager
def translated() -> Iterator[None]:
    """Errors of the driver become the store's own."""
    try:
        yield
    except _UNAVAILABLE as error:
        raise StoreUnavailableError(str(error) or type(error).__name__) from error
