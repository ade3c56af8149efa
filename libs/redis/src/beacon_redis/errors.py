"""The errors that mean that Redis did not execute a command, or that its reply was lost."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redis.asyncio.retry import Retry
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import RedisClusterException, RedisError

T = TypeVar("T")

# redis-py raises its own classes for sockets and timeouts. The cluster's base class is no RedisError.
REDIS_ERRORS = (RedisError, RedisClusterException)


class UvloopRetry(Retry):
    """redis-py's retry, which also handles a write to a connection that has just been closed.

    uvloop raises RuntimeError for such a write, where asyncio raises an OSError that redis-py translates.
    """

    async def call_with_retry(self, do: Callable[[], Awaitable[T]], *arguments: Any, **options: Any) -> T:

        async def translated() -> T:
            try:
                return await do()
            except RuntimeError as error:
                raise RedisConnectionError(f"the connection was closed: {error}") from error

        return await super().call_with_retry(translated, *arguments, **options)
