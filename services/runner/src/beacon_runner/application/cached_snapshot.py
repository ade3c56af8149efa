"""Pictures of what only the servers know, taken in the background and at most a moment old."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from beacon_lifecycle import Clock, TaskSet
from beacon_redis import REDIS_ERRORS
from beacon_runner.domain.errors import StoreUnavailableError

log = structlog.get_logger(__name__)

T = TypeVar("T")

EXPECTED = (*REDIS_ERRORS, StoreUnavailableError)


class Picture(Generic[T]):
    """Many may look; one at a time takes a new one when the last is older than `fresh_s`."""

    def __init__(self, name: str, take: Callable[[], Awaitable[T]], clock: Clock, *, fresh_s: float) -> None:
        self._name = name
        self._take = take
        self._clock = clock
        self._fresh_s = fresh_s
        self._seen: T | None = None
        self._taken_at = float("-inf")
        self._taking: asyncio.Task[None] | None = None
        self._tasks = TaskSet(name)

    def begin(self) -> None:
        """Have a new one taken while the caller does something else."""
        if self._taking is None and self.age_s > self._fresh_s:
            self._taking = self._tasks.spawn("take", self._look())

    @property
    def age_s(self) -> float:
        return self._clock.now() - self._taken_at

    def last(self, oldest_s: float) -> T | None:
        """What was seen last, if that is not older; never waits."""
        return self._seen if self.age_s <= oldest_s else None

    async def fresh(self, patience_s: float) -> T | None:
        """One that is fresh, if it can be had in that time; otherwise the last one, whatever its age."""
        self.begin()
        if self._taking is not None:
            await asyncio.wait({self._taking}, timeout=patience_s)
        return self._seen

    async def close(self) -> None:
        await self._tasks.close()

    async def _look(self) -> None:
        try:
            self._seen = await self._take()
            self._taken_at = self._clock.now()
        except EXPECTED as error:
            log.info("picture_missing", picture=self._name, error=str(error))
        finally:
            self._taking = None
