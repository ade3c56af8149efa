"""The operations of the queue: one Lua file each, run by its hash."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis, RedisCluster

from beacon_redis import REDIS_ERRORS, LuaScripts
from beacon_runner.domain.errors import QueueUnavailableError
from beacon_runner.redis_queue.keys import Layout

_SCRIPTS = LuaScripts(files(__package__) / "lua")

run = _SCRIPTS.run
run_blocking = _SCRIPTS.run_blocking


class Operation(StrEnum):
    PUSH = "push"
    CLAIM = "claim"
    ACK = "ack"
    REMOVE = "remove"
    EXTEND = "extend"
    NACK = "nack"
    RECLAIM = "reclaim"
    PROMOTE_DUE_RETRIES = "promote_due_retries"
    RECOUNT = "recount"
    POSITION = "position"
    STATS = "stats"
    UPCOMING = "upcoming"
    VERIFY = "verify"
    REPAIR = "repair"
    FORGET_DEAD = "forget_dead"
    NOTIFY = "notify"
    ADMIT_REQUEST = "admit_request"
    RENEW_REQUESTS = "renew_requests"
    RELEASE_REQUESTS = "release_requests"
    REQUEST_USE = "request_use"


class QueueScripts:
    """Runs the operations on the messages of one queue; see layout.inc.lua for what they have in common."""

    def __init__(self, redis: Redis | RedisCluster, layout: Layout) -> None:
        self._redis = redis
        self._keys = layout.shared
        self._arguments = layout.arguments

    async def run(self, operation: Operation, *arguments: str | int, more_keys: Sequence[str] = ()) -> Any:
        """Raises QueueUnavailableError like `redis_errors`."""
        try:
            return await run(
                self._redis, operation, (*self._keys, *more_keys), (*self._arguments, *arguments)
            )
        except REDIS_ERRORS as error:
            raise QueueUnavailableError(str(error)) from error


@contextmanager
def redis_errors() -> Iterator[None]:
    """Raises QueueUnavailableError when Redis did not execute a command, or its reply was lost."""
    try:
        yield
    except REDIS_ERRORS as error:
        raise QueueUnavailableError(str(error)) from error
