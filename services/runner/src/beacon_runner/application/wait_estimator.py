"""Where a job would stand, from a picture of the queues that is at most a moment old."""

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from beacon_config import BeaconConfig
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import Clock, TaskSet
from beacon_redis import REDIS_ERRORS
from beacon_runner.application.cached_snapshot import Picture
from beacon_runner.domain.messages import Message
from beacon_runner.domain.plan import places
from beacon_runner.domain.standing import estimated_wait_s, places_ahead
from beacon_runner.ports.queue_admin import QueueAdmin, QueueStats
from beacon_runner.ports.router import RouterPort

log = structlog.get_logger(__name__)

FRESH_S = 1.0
PATIENCE_S = 0.05
ROUTERS_FRESH_S = 2.0
ROUTERS_OLDEST_S = 15.0


class WaitEstimator:
    """Never makes a submission wait for Redis longer than a blink: then its position is simply not said."""

    def __init__(self, desk: QueueAdmin, router: RouterPort, config: BeaconConfig, clock: Clock) -> None:
        self._desk = desk
        self._config = config
        self._clock = clock
        self._stats: QueueStats | None = None
        self._taken_at = float("-inf")
        self._ahead: dict[tuple[JobClass, str], int] = {}
        self._routers = Picture("routers", router.status, clock, fresh_s=ROUTERS_FRESH_S)
        self._tasks = TaskSet("outlook")
        self._refresh: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Have a fresh picture taken while the caller does something else."""
        self._routers.begin()
        if self._clock.now() - self._taken_at > FRESH_S and self._refresh is None:
            self._refresh = self._tasks.spawn("refresh", self._take())

    async def newcomer(self, job_class: JobClass, lane: str) -> int | None:
        """The position of a job that has just been queued; None when nobody knows."""
        if self._refresh is not None and self._clock.now() - self._taken_at > 2 * FRESH_S:
            await asyncio.wait({self._refresh}, timeout=PATIENCE_S)
        if self._stats is None or self._clock.now() - self._taken_at > 10 * FRESH_S:
            return None
        key = (job_class, lane)
        ahead = self._ahead.get(key)
        if ahead is None:
            ahead = self._ahead[key] = places_ahead(self._stats, job_class, lane)
        return ahead + 1

    def is_paused(self, job_class: JobClass) -> bool:
        """As far as the last picture tells."""
        return self._stats is not None and job_class in self._stats.paused

    async def position(self, message: Message) -> int | None:
        """The position of a job that waits in a lane; None when it does not, or nobody knows."""
        try:
            place = await self._desk.place(message)
        except REDIS_ERRORS as error:
            log.info("position_unknown", error=str(error))
            return None
        return None if place is None else place.ahead + 1

    def wait_s(self, spec: Mapping[str, Any], position: int | None, stage: int = 0) -> float | None:
        """How long a job at that position waits: for its turn here, then for a GPU as things stand there."""
        if position is None:
            return None
        first = next(place for place in places(spec) if place.stage == stage)
        here = estimated_wait_s(self._config, first.model, position - 1)
        return round(here + self._at_router_s(first.model, first.region), 2)

    def _at_router_s(self, model: str, region: str) -> float:
        """What the router says that a new request waits; nothing while no router says anything."""
        waits = [
            status.queues.regions[region].estimated_wait[model].p50_s
            for status in self._routers.last(ROUTERS_OLDEST_S) or ()
            if status.queues is not None
            and region in status.queues.regions
            and model in status.queues.regions[region].estimated_wait
        ]
        return min(waits, default=0.0)

    async def close(self) -> None:
        await self._tasks.close()
        await self._routers.close()

    async def _take(self) -> None:
        try:
            self._stats = await self._desk.stats()
            self._ahead.clear()
            self._taken_at = self._clock.now()
        except REDIS_ERRORS as error:
            log.info("queue_stats_missing", error=str(error))
        finally:
            self._refresh = None
