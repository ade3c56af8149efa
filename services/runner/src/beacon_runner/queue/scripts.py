"""Reads the Lua operations and runs them by their hash, loading them again when the server forgot them."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from redis import Redis as SyncRedis
from redis import RedisCluster as SyncRedisCluster
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError

_INCLUDE = re.compile(r"^-- include (\S+)$", re.MULTILINE)


class Operation(StrEnum):
    """One Lua file each."""

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
    FORGET_DEAD = "forget_dead"
    TELL = "tell"


@dataclass(frozen=True, slots=True)
class Script:
    text: str
    sha: str


@cache
def script_of(operation: Operation) -> Script:
    folder = files(__package__) / "lua"
    text = _INCLUDE.sub(
        lambda line: (folder / line.group(1)).read_text(encoding="utf-8"),
        (folder / f"{operation}.lua").read_text(encoding="utf-8"),
    )
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


async def run(
    redis: Redis | RedisCluster, operation: Operation, keys: Sequence[str], arguments: Sequence[str | int]
) -> Any:
    script = script_of(operation)
    try:
        return await redis.evalsha(script.sha, len(keys), *keys, *arguments)
    except NoScriptError:
        return await redis.eval(script.text, len(keys), *keys, *arguments)


def run_blocking(
    redis: SyncRedis | SyncRedisCluster,
    operation: Operation,
    keys: Sequence[str],
    arguments: Sequence[str | int],
) -> Any:
    """The same for a thread that has no event loop."""
    script = script_of(operation)
    try:
        return redis.evalsha(script.sha, len(keys), *keys, *arguments)
    except NoScriptError:
        return redis.eval(script.text, len(keys), *keys, *arguments)
