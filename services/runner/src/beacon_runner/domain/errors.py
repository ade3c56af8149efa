"""Errors of the runner that every layer knows. They know nothing of HTTP or of a driver."""


class StoreUnavailableError(Exception):
    """Postgres does not answer now; the statement may or may not have taken effect."""


class StoreOutdatedError(StoreUnavailableError):
    """The database schema is older than this code: everything waits for the migration."""
