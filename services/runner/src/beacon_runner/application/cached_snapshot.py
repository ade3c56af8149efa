"""A cached value that is refreshed in the background."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from beacon_lifecycle import Clock, TaskSet
from beacon_runner.domain.errors import QueueUnavailableError, StoreUnavailableError

log = structlog.get_logger(__name__)

T = TypeVar("T")

EXPECTED_ERRORS = (QueueUnavailableError, StoreUnavailableError)


class CachedSnapshot(Generic[T]):
    """Any number of readers; one refresh at a time, when the value is older than `fresh_s`: of a load that
    takes long, four times as long as it took, up to `max_fresh_s`."""

    def __init__(
        self,
        name: str,
        load: Callable[[], Awaitable[T]],
        clock: Clock,
        *,
        fresh_s: float,
        max_fresh_s: float = 0.0,
    ) -> None:
        self._name = name
        self._load = load
        self._clock = clock
        self._fresh_s = fresh_s
        self._max_fresh_s = max_fresh_s
        self._value: T | None = None
        self._loaded_at = float("-inf")
        self._took_s = 0.0
        self._refresh: asyncio.Task[None] | None = None
        self._tasks = TaskSet(name)

    def start_refresh(self) -> None:
        """Refresh a value that is not fresh, while the caller continues."""
        age_s = self._clock.now() - self._loaded_at
        if self._refresh is None and age_s > max(self._fresh_s, min(4 * self._took_s, self._max_fresh_s)):
            self._refresh = self._tasks.spawn("refresh", self._load_once())

    def latest(self, max_age_s: float) -> T | None:
        """The last value, if it is not older; never waits."""
        return self._value if self._clock.now() - self._loaded_at <= max_age_s else None

    async def fresh(self, timeout_s: float) -> T | None:
        """A fresh value if it arrives in that time; otherwise the last one, whatever its age."""
        self.start_refresh()
        if self._refresh is not None:
            await asyncio.wait({self._refresh}, timeout=timeout_s)
        return self._value

    async def close(self) -> None:
        await self._tasks.close()

    async def _load_once(self) -> None:
        began = self._clock.now()
        try:
            self._value = await self._load()
            self._loaded_at = self._clock.now()
            self._took_s = self._loaded_at - began
        except EXPECTED_ERRORS as error:
            log.info("snapshot_refresh_failed", snapshot=self._name, error=str(error))
        finally:
            self._refresh = None
