"""Translates errors of the driver into the error of the domain."""

from collections.abc import Iterator
from contextlib import contextmanager

from beacon_redis import REDIS_ERRORS
from beacon_runner.domain.errors import QueueUnavailableError


@contextmanager
def redis_errors() -> Iterator[None]:
    """Raises QueueUnavailableError when Redis did not execute a command, or its reply was lost."""
    try:
        yield
    except REDIS_ERRORS as error:
        raise QueueUnavailableError(str(error)) from error
