"""The operations of the queue: one Lua file each, run by its hash."""

from enum import StrEnum
from importlib.resources import files

from beacon_redis import LuaScripts

_SCRIPTS = LuaScripts(files(__package__) / "lua")

script_of = _SCRIPTS.script
run = _SCRIPTS.run
run_blocking = _SCRIPTS.run_blocking


class Operation(StrEnum):
    PUSH = "push"
    CLAIM = "claim"
    ACK = "ack"
    REMOVE = "remove"
    EXTEND = "extend"
    GIVE_BACK = "give_back"
    RECLAIM = "reclaim"
    TAKE_DUE = "take_due"
    MOVE = "move"
    RECOUNT = "recount"
    POSITION = "position"
    STATS = "stats"
    UPCOMING = "upcoming"
    CENSUS = "census"
    MEND = "mend"
    FORGET_DEAD = "forget_dead"
    TELL = "tell"
