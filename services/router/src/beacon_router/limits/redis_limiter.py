"""Limits in Redis: sorted sets of leases by the server's clock, and a channel that wakes those in line."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any

from beacon_lifecycle import Clock
from beacon_redis import REDIS_ERRORS, LuaScripts, RedisAddress, Subscriber
from beacon_router.limits.port import Limit, LimiterAwayError, News, NewsKind, Standing, Token

_SCRIPTS = LuaScripts(files(__package__) / "lua")


class RedisLimiter:
    """A service: it listens from `start` to `stop`. Watch before starting."""

    name = "limits"

    def __init__(self, address: RedisAddress, clock: Clock, *, lease_s: float) -> None:
        self.lease_s = lease_s
        self._cluster = address.cluster
        self._database = address.database
        address = replace(address, timeout_s=max(0.5, lease_s / 4))
        self._redis = address.open()
        self._subscriber = Subscriber(self.name, address, clock, on_connected=self._connected)
        self._told: dict[str, Callable[[News], None]] = {}
        self._names: list[str] = []
        self._spoken: set[str] = set()
        self._listening = asyncio.Event()

    def watch(self, name: str, told: Callable[[News], None]) -> None:
        self._names.append(name)
        channel = self._channel(name)
        self._told[channel] = told
        self._subscriber.add(channel, partial(self._tell, told))

    async def start(self) -> None:
        """A server that is away does not keep the process from starting."""
        await self._subscriber.start()

    async def wait(self) -> None:
        await self._subscriber.wait()

    async def stop(self) -> None:
        await self._subscriber.stop()
        await self._redis.aclose()

    async def acquire(self, limit: Limit, tokens: Sequence[Token]) -> Standing:
        return _standing(await self._run("acquire", limit, tokens))

    async def renew(self, limit: Limit, held: Sequence[Token], waiting: Sequence[Token]) -> Standing:
        return _standing(await self._run("renew", limit, [str(len(held)), *held, *waiting]))

    async def release(self, limit: Limit, tokens: Sequence[Token]) -> int:
        return int(await self._run("release", limit, tokens))

    async def _run(self, operation: str, limit: Limit, arguments: Sequence[str]) -> Any:
        if not self._listening.is_set():
            raise LimiterAwayError("not connected yet")
        try:
            return await self._send(operation, limit, arguments)
        except REDIS_ERRORS as error:
            raise LimiterAwayError(f"{operation} of {limit.name}: {error}") from error

    async def _connected(self) -> None:
        """After a lost connection every process reports again what it holds."""
        await self._introduce()
        self._listening.set()
        for told in self._told.values():
            told(News(NewsKind.RENEW))

    async def _introduce(self) -> None:
        """The first of all finds a limit that nobody has spoken of, alone: that is not one that was lost."""
        for name in self._names:
            await self._send("renew", Limit(name, 0), ["0"])

    async def _send(self, operation: str, limit: Limit, arguments: Sequence[str]) -> Any:
        key = self._key(limit.name)
        newcomer = 0 if limit.name in self._spoken else 1
        fixed = (limit.cap, int(self.lease_s * 1000), self._channel(limit.name), newcomer)
        keys = [key, f"{key}:line", f"{key}:alive", f"{key}:seen"]
        answer = await _SCRIPTS.run(self._redis, operation, keys, [*fixed, *arguments])
        self._spoken.add(limit.name)
        return answer

    def _key(self, name: str) -> str:
        return f"conc:{{{name}}}" if self._cluster else f"conc:{name}"

    def _channel(self, name: str) -> str:
        return f"{self._key(name)}:news:{self._database}"

    @property
    def listening(self) -> bool:
        """News come in: before that, others could not tell that this process is there."""
        return self._listening.is_set()

    def _tell(self, told: Callable[[News], None], data: str) -> None:
        if not data:  # `_connected` follows when all channels are subscribed
            return
        kind, *tokens = data.split()
        with suppress(ValueError):  # a kind of a later version
            told(News(NewsKind(kind), frozenset(Token(token) for token in tokens)))


def _standing(answer: Any) -> Standing:
    in_line, again_ms, held, waiting = answer
    return Standing(
        held=frozenset(Token(token) for token in held),
        waiting=frozenset(Token(token) for token in waiting),
        others_waiting=int(in_line) - len(waiting),
        look_again_s=None if int(again_ms) < 0 else int(again_ms) / 1000,
    )
