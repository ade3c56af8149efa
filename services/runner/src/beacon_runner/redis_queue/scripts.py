"""The operations of the queue: one Lua file each, run by its hash."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.resources import files

from beacon_redis import REDIS_ERRORS, LuaScripts
from beacon_runner.domain.errors import QueueUnavailableError

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


@contextmanager
def redis_errors() -> Iterator[None]:
    """Raises QueueUnavailableError when Redis did not execute a command, or its reply was lost."""
    try:
        yield
    except REDIS_ERRORS as error:
        raise QueueUnavailableError(str(error)) from error
