"""Errors of the driver as errors of the domain."""

import asyncpg

from beacon_runner.domain.errors import StoreOutdatedError, StoreUnavailableError

# A statement does not fit the tables. The tests see that all fit the newest version, so it is not that one.
OUTDATED = (
    asyncpg.exceptions.UndefinedTableError,
    asyncpg.exceptions.UndefinedColumnError,
    asyncpg.exceptions.UndefinedFunctionError,
    asyncpg.exceptions.UndefinedObjectError,
    asyncpg.exceptions.DatatypeMismatchError,
    asyncpg.exceptions.InvalidColumnReferenceError,  # ON CONFLICT without its index
)

UNAVAILABLE = (  # errors of the driver that say nothing about what was asked
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
    # A migration has changed a table under a prepared statement: the next try prepares it again.
    asyncpg.exceptions.InvalidCachedStatementError,
    *OUTDATED,
)

MIN_POSTGRES = 17  # transaction_timeout

# Two writers of the same rows in another order: one of them was told to try again.
CONFLICTS = (asyncpg.exceptions.DeadlockDetectedError, asyncpg.exceptions.SerializationError)


def unavailable(error: BaseException) -> StoreUnavailableError:
    """The same as an error of the domain."""
    if isinstance(error, asyncpg.exceptions.UndefinedObjectError) and "configuration parameter" in str(error):
        return StoreUnavailableError(f"PostgreSQL {MIN_POSTGRES} or later is required: {error}")
    if isinstance(error, OUTDATED):
        return StoreOutdatedError(f"the database is not migrated, run `beacon-runner migrate`: {error}")
    return StoreUnavailableError(str(error) or type(error).__name__)
