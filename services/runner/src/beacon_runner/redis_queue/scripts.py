"""The operations of the queue: one Lua file each, run by its hash."""

from enum import StrEnum
from importlib.resources import files

from beacon_redis import LuaScripts

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
