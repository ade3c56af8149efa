"""Reads the Lua operations and runs them by their hash, loading them again when the server forgot them."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError

_INCLUDE = re.compile(r"^-- include (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    text: str
    sha: str


@cache
def script(operation: str) -> Script:
    folder = files(__package__) / "lua"
    text = _INCLUDE.sub(
        lambda line: (folder / line.group(1)).read_text(encoding="utf-8"),
        (folder / f"{operation}.lua").read_text(encoding="utf-8"),
    )
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


async def run(
    redis: Redis | RedisCluster, operation: str, keys: Sequence[str], arguments: Sequence[str | int]
) -> Any:
    known = script(operation)
    try:
        return await redis.evalsha(known.sha, len(keys), *keys, *arguments)
    except NoScriptError:
        return await redis.eval(known.text, len(keys), *keys, *arguments)
