"""Reads Lua operations and runs them by their hash, loading them again when the server forgot them."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources.abc import Traversable
from typing import Any

from redis import Redis as SyncRedis
from redis import RedisCluster as SyncRedisCluster
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError

from beacon_redis.quick import QuickRedis

_INCLUDE = re.compile(r"^-- include (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    text: str
    sha: str


class LuaScripts:
    """A folder with one file per operation; a line `-- include <file>` stands for another file of it."""

    def __init__(self, folder: Traversable) -> None:
        self._folder = folder
        self._read: dict[str, Script] = {}

    def script(self, operation: str) -> Script:
        found = self._read.get(operation)
        if found is None:
            text = _INCLUDE.sub(lambda line: self._text(line[1]), self._text(f"{operation}.lua"))
            found = Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
            self._read[operation] = found
        return found

    async def run(
        self,
        redis: Redis | RedisCluster,
        operation: str,
        keys: Sequence[str],
        arguments: Sequence[str | int],
    ) -> Any:
        script = self.script(operation)
        try:
            return await redis.evalsha(script.sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return await redis.eval(script.text, len(keys), *keys, *arguments)

    def begin(
        self, redis: QuickRedis, operation: str, keys: Sequence[str], arguments: Sequence[str | int]
    ) -> Callable[[], Awaitable[Any]] | None:
        """For what is to be done at once and not twice: it is on its way when this returns, and what comes
        back is called for the answer. After an error it may have been done, and is not tried again.

        None, and nothing was done, where a connection is to be opened first.
        """
        script = self.script(operation)
        words: tuple[Any, ...] = (script.sha, len(keys), *keys, *arguments)
        sent = redis.send_evalsha(*words)
        return None if sent is None else partial(self._end, redis, script, sent, words)

    async def _end(
        self, redis: QuickRedis, script: Script, sent: Awaitable[Any], words: tuple[Any, ...]
    ) -> Any:
        try:
            return await sent
        except NoScriptError:  # so it was not done
            await redis.script_load(script.text)
            return await redis.evalsha_once(*words)

    def run_blocking(
        self,
        redis: SyncRedis | SyncRedisCluster,
        operation: str,
        keys: Sequence[str],
        arguments: Sequence[str | int],
    ) -> Any:
        """The same for a thread that has no event loop."""
        script = self.script(operation)
        try:
            return redis.evalsha(script.sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return redis.eval(script.text, len(keys), *keys, *arguments)

    def _text(self, name: str) -> str:
        return (self._folder / name).read_text(encoding="utf-8")
