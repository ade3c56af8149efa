"""Translates errors of the driver into errors of the domain."""

import asyncpg

from beacon_runner.domain.errors import StoreOutdatedError, StoreUnavailableError

# The statement does not match the schema. Tests prepare all statements on the newest one: this one is older.
OUTDATED = (
    asyncpg.exceptions.UndefinedTableError,
    asyncpg.exceptions.UndefinedColumnError,
    asyncpg.exceptions.UndefinedFunctionError,
    asyncpg.exceptions.UndefinedObjectError,
    asyncpg.exceptions.DatatypeMismatchError,
    asyncpg.exceptions.InvalidColumnReferenceError,  # ON CONFLICT without its index
)

UNAVAILABLE = (  # errors that say nothing about the statement
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.exceptions.CannotConnectNowError,
    asyncpg.exceptions.OperatorInterventionError,
    asyncpg.exceptions.InsufficientResourcesError,
    asyncpg.exceptions.InternalClientError,
    # The process stalled in a transaction and the server ended it, or the server became a read-only standby.
    asyncpg.exceptions.InvalidTransactionStateError,
    # A migration has changed a table under a prepared statement: the retry prepares it again.
    asyncpg.exceptions.InvalidCachedStatementError,
    *OUTDATED,
)

MIN_POSTGRES = 17  # transaction_timeout

# Two transactions locked the same rows in a different order: the server aborted one, which is retried.
CONFLICTS = (asyncpg.exceptions.DeadlockDetectedError, asyncpg.exceptions.SerializationError)


def unavailable(error: BaseException) -> StoreUnavailableError:
    """The error of the domain for an error of the driver."""
    if isinstance(error, asyncpg.exceptions.UndefinedObjectError) and "configuration parameter" in str(error):
        return StoreUnavailableError(f"PostgreSQL {MIN_POSTGRES} or later is required: {error}")
    if isinstance(error, OUTDATED):
        return StoreOutdatedError(f"the database is not migrated, run `beacon-runner migrate`: {error}")
    return StoreUnavailableError(str(error) or type(error).__name__)
