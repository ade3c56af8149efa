"""Positions and waits of jobs, estimated from snapshots of the queue and of the routers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from beacon_config import BeaconConfig
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import Clock
from beacon_redis import REDIS_ERRORS
from beacon_runner.application.cached_snapshot import CachedSnapshot
from beacon_runner.domain.messages import Message
from beacon_runner.domain.plan import first_target
from beacon_runner.domain.wait_estimate import jobs_ahead, seconds_per_job
from beacon_runner.ports.queue_admin import QueueAdmin, QueueStats
from beacon_runner.ports.router import RouterPort

log = structlog.get_logger(__name__)

QUEUE_FRESH_S = 1.0
QUEUE_MAX_AGE_S = 10.0
QUEUE_TIMEOUT_S = 0.05
ROUTERS_FRESH_S = 2.0
ROUTERS_MAX_AGE_S = 15.0


@dataclass(frozen=True, slots=True)
class _QueueSnapshot:
    """The queue's counts, and the jobs ahead by class and lane, computed once for each snapshot."""

    stats: QueueStats
    ahead: dict[tuple[JobClass, str], int] = field(default_factory=dict)


class WaitEstimator:
    """A submission waits at most `QUEUE_TIMEOUT_S` for Redis; without an answer its position is null."""

    def __init__(self, queue: QueueAdmin, router: RouterPort, config: BeaconConfig, clock: Clock) -> None:
        self._queue = queue
        self._seconds_per_job = seconds_per_job(config)
        self._counts = CachedSnapshot("queue", self._load_counts, clock, fresh_s=QUEUE_FRESH_S)
        self._routers = CachedSnapshot("routers", router.status, clock, fresh_s=ROUTERS_FRESH_S)

    def start_refresh(self) -> None:
        """Refresh both snapshots while the caller continues."""
        self._routers.start_refresh()
        self._counts.start_refresh()

    async def position_if_enqueued(self, job_class: JobClass, lane: str) -> int | None:
        """The position of a job that is queued now; None when it is unknown."""
        counts = self._counts.latest(2 * QUEUE_FRESH_S)
        if counts is None:
            await self._counts.fresh(QUEUE_TIMEOUT_S)
            counts = self._counts.latest(QUEUE_MAX_AGE_S)
        if counts is None:
            return None
        ahead = counts.ahead.get((job_class, lane))
        if ahead is None:
            pending = {load.lane: load.pending for load in counts.stats.lanes if load.job_class is job_class}
            ahead = jobs_ahead(counts.stats.front.get(job_class, 0), pending, lane)
            counts.ahead[job_class, lane] = ahead
        return ahead + 1

    def is_paused(self, job_class: JobClass) -> bool:
        """According to the last snapshot, whatever its age."""
        counts = self._counts.latest(float("inf"))
        return counts is not None and job_class in counts.stats.paused

    async def position(self, message: Message) -> int | None:
        """The position of a job that waits in a lane; None when it does not, or when it is unknown."""
        try:
            place = await self._queue.place(message)
        except REDIS_ERRORS as error:
            log.info("position_unknown", error=str(error))
            return None
        return None if place is None else place.ahead + 1

    def wait_s(self, spec: Mapping[str, Any], position: int | None, stage: int = 0) -> float | None:
        """The wait of a job at that position: in the runner's queue, then at the router.

        The wait at the router is that of a new request as the routers estimate it; 0 while none answers.
        """
        if position is None:
            return None
        model, region = first_target(spec, stage)
        at_router = [
            status.queues.regions[region].estimated_wait[model].p50_s
            for status in self._routers.latest(ROUTERS_MAX_AGE_S) or ()
            if status.queues is not None
            and region in status.queues.regions
            and model in status.queues.regions[region].estimated_wait
        ]
        return round((position - 1) * self._seconds_per_job.get(model, 0.0) + min(at_router, default=0.0), 2)

    async def close(self) -> None:
        await self._counts.close()
        await self._routers.close()

    async def _load_counts(self) -> _QueueSnapshot:
        return _QueueSnapshot(await self._queue.stats())
