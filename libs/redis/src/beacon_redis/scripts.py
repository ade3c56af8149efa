"""Runs Lua scripts by their hash, and sends their text when the server does not have them."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any

from redis import Redis as SyncRedis
from redis import RedisCluster as SyncRedisCluster
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError

_INCLUDE = re.compile(r"^-- include (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    text: str
    sha: str


class LuaScripts:
    """A folder with one file per operation; a line `-- include <file>` inserts another file of the folder."""

    def __init__(self, folder: Traversable) -> None:
        texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.is_file()}
        self.scripts: dict[str, Script] = {}
        for name, text in texts.items():
            if name.endswith(".lua") and not name.endswith(".inc.lua"):
                whole = _INCLUDE.sub(lambda line: texts[line[1]], text)
                sha = hashlib.sha1(whole.encode(), usedforsecurity=False).hexdigest()
                self.scripts[name.removesuffix(".lua")] = Script(whole, sha)

    async def run(
        self,
        redis: Redis | RedisCluster,
        operation: str,
        keys: Sequence[str],
        arguments: Sequence[str | int],
    ) -> Any:
        script = self.scripts[operation]
        try:
            return await redis.evalsha(script.sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return await redis.eval(script.text, len(keys), *keys, *arguments)

    def run_blocking(
        self,
        redis: SyncRedis | SyncRedisCluster,
        operation: str,
        keys: Sequence[str],
        arguments: Sequence[str | int],
    ) -> Any:
        """`run` for a thread that has no event loop."""
        script = self.scripts[operation]
        try:
            return redis.evalsha(script.sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return redis.eval(script.text, len(keys), *keys, *arguments)
