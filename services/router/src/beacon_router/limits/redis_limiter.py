"""Limits in Redis: sorted sets of leases by the server's clock, and a channel for events."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any

from beacon_lifecycle import Clock
from beacon_redis import REDIS_ERRORS, LuaScripts, RedisAddress, Subscriber
from beacon_router.limits.port import (
    LimiterUnavailableError,
    LimitEvent,
    LimitEventKind,
    SharedLimit,
    Token,
    TokenStatus,
)

_SCRIPTS = LuaScripts(files(__package__) / "lua")


class RedisLimiter:
    """A service: subscribed from `start` to `stop`."""

    name = "limits"

    def __init__(self, address: RedisAddress, clock: Clock, *, lease_s: float) -> None:
        self.lease_s = lease_s
        self._cluster = address.cluster
        self._database = address.database
        address = replace(address, timeout_s=max(0.5, lease_s / 4))
        self._redis = address.open()
        self._subscriber = Subscriber(self.name, address, clock, on_connected=self._connected)
        self._callbacks: dict[str, Callable[[LimitEvent], None]] = {}
        self._contacted: set[str] = set()
        self._subscribed = asyncio.Event()

    @property
    def subscribed(self) -> bool:
        """Events are received: before that, other processes cannot see this one."""
        return self._subscribed.is_set()

    def watch(self, name: str, callback: Callable[[LimitEvent], None]) -> None:
        self._callbacks[name] = callback
        self._subscriber.add(self._channel(name), partial(_notify, callback))

    def unwatch(self, name: str, callback: Callable[[LimitEvent], None]) -> None:
        if self._callbacks.get(name) == callback:
            del self._callbacks[name]
            self._contacted.discard(name)
            self._subscriber.remove(self._channel(name))

    async def start(self) -> None:
        """An unavailable server does not prevent the process from starting."""
        await self._subscriber.start()

    async def wait(self) -> None:
        await self._subscriber.wait()

    async def stop(self) -> None:
        await self._subscriber.stop()
        await self._redis.aclose()

    async def acquire(self, limit: SharedLimit, tokens: Sequence[Token]) -> TokenStatus:
        return _status(await self._run("acquire", limit, tokens))

    async def renew(self, limit: SharedLimit, held: Sequence[Token], waiting: Sequence[Token]) -> TokenStatus:
        return _status(await self._run("renew", limit, [str(len(held)), *held, *waiting]))

    async def release(self, limit: SharedLimit, tokens: Sequence[Token]) -> int:
        return int(await self._run("release", limit, tokens))

    async def _run(self, operation: str, limit: SharedLimit, arguments: Sequence[str]) -> Any:
        if not self._subscribed.is_set():
            raise LimiterUnavailableError("not connected yet")
        try:
            return await self._send(operation, limit, arguments)
        except REDIS_ERRORS as error:
            raise LimiterUnavailableError(f"{operation} of {limit.name}: {error}") from error

    async def _connected(self) -> None:
        """Register each limit, so that a new one is not mistaken for one whose state was lost; then renew."""
        for name in list(self._callbacks):
            await self._send("renew", SharedLimit(name, 0), ["0"])
        self._subscribed.set()
        for callback in list(self._callbacks.values()):
            callback(LimitEvent(LimitEventKind.RENEW))

    async def _send(self, operation: str, limit: SharedLimit, arguments: Sequence[str]) -> Any:
        key = self._key(limit.name)
        first_contact = 0 if limit.name in self._contacted else 1
        fixed = (limit.cap, int(self.lease_s * 1000), self._channel(limit.name), first_contact)
        keys = [key, f"{key}:queue", f"{key}:alive", f"{key}:seen"]
        answer = await _SCRIPTS.run(self._redis, operation, keys, [*fixed, *arguments])
        self._contacted.add(limit.name)
        return answer

    def _key(self, name: str) -> str:
        return f"conc:{{{name}}}" if self._cluster else f"conc:{name}"

    def _channel(self, name: str) -> str:
        return f"{self._key(name)}:events:{self._database}"


def _notify(callback: Callable[[LimitEvent], None], data: str) -> None:
    if not data:  # the subscription has begun; `_connected` follows
        return
    kind, *tokens = data.split()
    with suppress(ValueError):  # an event kind of a later version
        callback(LimitEvent(LimitEventKind(kind), frozenset(Token(token) for token in tokens)))


def _status(answer: Any) -> TokenStatus:
    queued, recheck_ms, held, waiting, excess = answer
    return TokenStatus(
        held=frozenset(Token(token) for token in held),
        waiting=frozenset(Token(token) for token in waiting),
        wanted=int(queued) - len(waiting) + int(excess),
        recheck_in_s=None if int(recheck_ms) < 0 else int(recheck_ms) / 1000,
    )
