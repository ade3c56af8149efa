"""Positions and waits of jobs, from snapshots of the queue and of the routers' forecasts."""

import asyncio
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import structlog

from beacon_config import LiveConfig
from beacon_config.queues import LaneStrategy
from beacon_contracts.ids import USER, UserId, encode_id
from beacon_contracts.inference import Failover
from beacon_contracts.tiers import JobClass, Tier
from beacon_lifecycle import Clock
from beacon_runner.application.cached_snapshot import CachedSnapshot
from beacon_runner.domain.errors import QueueUnavailableError
from beacon_runner.domain.execution.plan import first_target
from beacon_runner.domain.jobs.records import JobRecord
from beacon_runner.domain.jobs.submissions import NewJob
from beacon_runner.domain.queue.wait_estimate import (
    EstimateTarget,
    QueueAhead,
    RouterForecast,
    WaitEstimate,
    jobs_ahead,
    sooner,
)
from beacon_runner.ports.queue_admin import QueueAdmin, QueueStats
from beacon_runner.ports.router import RouterPort

log = structlog.get_logger(__name__)

FRESH_S, MAX_FRESH_S = 0.2, 0.5
MAX_AGE_S = 10.0
TIMEOUT_S = 0.05
ROUTER_TIMEOUT_S = 1.0
RECENT_S, MAX_RECENT = 2.0, 10_000
"""Jobs accepted within so many seconds may be on their way from the queue to a router."""

NO_QUEUE = "the queue is unavailable: Redis does not answer"
NO_ROUTER = "no router answers"


class _Accepted(NamedTuple):
    """A job that this process has accepted."""

    at: float
    job_class: JobClass
    lane: str
    user: UserId


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The queue and the routers at one moment; `unsent` has, by lane, the leased jobs that have not reached a
    router, and `ahead` the jobs accepted since by this process."""

    stats: QueueStats
    routers: Sequence[RouterForecast]
    unsent: Mapping[str, int]
    ahead: dict[tuple[JobClass, str], QueueAhead] = field(default_factory=dict)

    def ahead_of_new(self, job_class: JobClass, lane: str) -> QueueAhead:
        found = self.ahead.get((job_class, lane))
        if found is None:
            pending = {load.lane: load.pending for load in self.stats.lanes if load.job_class is job_class}
            found = jobs_ahead(self.stats.front.get(job_class, 0), pending, lane)
            found = found._replace(own=found.own + self.unsent.get(lane, 0))
        return found

    def accepted(self, job_class: JobClass, lane: str) -> None:
        """A job that is not in the queue yet counts for later ones."""
        here = self.ahead_of_new(job_class, lane)
        self.ahead[job_class, lane] = QueueAhead(here.own + 1, here.others)

    def estimate(self, target: EstimateTarget, job_class: JobClass, here: QueueAhead) -> WaitEstimate:
        """By the router where it would wait the shortest time."""
        best: WaitEstimate | None = None
        for router in self.routers:
            best = sooner(best, router.estimate(target, here))
        waiting = (router.position(target, here) for router in self.routers)
        position = min(waiting, default=here.own + here.others + 1) if best is None else best.position
        if job_class in self.stats.paused:
            return WaitEstimate(position, reason=f"class {job_class} is paused")
        if not self.routers:
            return WaitEstimate(position, reason=NO_ROUTER)
        if best is None and any(router.starts(target) for router in self.routers):
            return WaitEstimate(position, reason=f"the backends of {target.model} are starting")
        if best is None:
            return WaitEstimate(position, reason=f"no backend can run {target.model} in {target.region} now")
        return best


class WaitEstimator:
    """A submission waits at most `TIMEOUT_S` for a snapshot; without one there is no estimate."""

    def __init__(self, queue: QueueAdmin, router: RouterPort, live: LiveConfig, clock: Clock) -> None:
        self._queue = queue
        self._router = router
        self._live = live
        self._clock = clock
        self._accepted: deque[_Accepted] = deque(maxlen=MAX_RECENT)
        self._snapshots = CachedSnapshot("waits", self._load, clock, fresh_s=FRESH_S, max_fresh_s=MAX_FRESH_S)

    def start_refresh(self) -> None:
        """Refresh the snapshot while the caller continues."""
        self._snapshots.start_refresh()

    async def of_new(self, jobs: Sequence[NewJob], *, accepted: bool = True) -> list[WaitEstimate]:
        """Of jobs of one user that are queued now, in this order; `accepted`: they count for later ones."""
        snapshot = await self._snapshot()
        if snapshot is None:
            return [WaitEstimate(reason=NO_QUEUE)] * len(jobs)
        found: list[WaitEstimate] = []
        targets: dict[object, EstimateTarget] = {}
        for job in jobs:
            spec = job.admitted.spec
            names = *first_target(spec), spec.get("failover")
            target = targets.get(names)
            if target is None:
                target = targets[names] = self._target(spec, 0, job.tier, job.user)
            here = snapshot.ahead_of_new(job.job_class, job.lane)
            found.append(snapshot.estimate(target, job.job_class, here))
            if accepted:
                snapshot.accepted(job.job_class, job.lane)
                self._accepted.append(_Accepted(self._clock.now(), job.job_class, job.lane, job.user))
        return found

    async def of_queued(self, job: JobRecord) -> WaitEstimate:
        """Of a job in a lane or in the front queue."""
        self.start_refresh()
        try:
            place = await self._queue.place(job.message)
        except QueueUnavailableError as error:
            log.info("position_unknown", error=str(error))
            return WaitEstimate(reason=NO_QUEUE)
        if place is None:
            return WaitEstimate(reason="the job is being moved into or out of its queue")
        if place.front:
            return await self.of_front(job, place.ahead)
        snapshot = await self._snapshot()
        if snapshot is None:
            return WaitEstimate(place.ahead + 1, reason=NO_QUEUE)
        head, unsent = job.head, snapshot.unsent.get(place.lane, 0)
        here = QueueAhead(place.ahead_in_lane + unsent, place.ahead - place.ahead_in_lane)
        target = self._target(job.spec, head.stage, head.tier, head.user)
        return snapshot.estimate(target, place.job_class, here)

    async def of_front(self, job: JobRecord, ahead: int) -> WaitEstimate:
        """Of a job that has paid for a skip: it starts before all tiers."""
        snapshot = await self._snapshot()
        if snapshot is None:
            return WaitEstimate(ahead + 1, reason=NO_QUEUE)
        highest = next(iter(self._live.current.tiers))
        target = self._target(job.spec, job.head.stage, highest, None)
        found = snapshot.estimate(target, job.head.job_class, QueueAhead(others=ahead))
        return WaitEstimate(ahead + 1, found.wait_s, found.reason)

    async def close(self) -> None:
        await self._snapshots.close()

    async def _snapshot(self) -> _Snapshot | None:
        latest = self._snapshots.latest(2 * MAX_FRESH_S)
        if latest is None:
            await self._snapshots.fresh(TIMEOUT_S)
            latest = self._snapshots.latest(MAX_AGE_S)
        return latest

    async def _load(self) -> _Snapshot:
        """All at the same moment: a job that moves from the queue to a router is counted once."""
        began = self._clock.now()
        while self._accepted and self._accepted[0].at < began - RECENT_S:
            self._accepted.popleft()
        recent = Counter((one.lane, one.user) for one in self._accepted)
        stats, leased, routers = await asyncio.gather(
            self._queue.stats(), self._queue.leased([lane for lane, _ in recent]), self._forecasts()
        )
        snapshot = _Snapshot(stats, routers, self._unsent(recent, leased, routers))
        for one in self._accepted:
            if one.at >= began:
                snapshot.accepted(one.job_class, one.lane)
        return snapshot

    def _unsent(
        self,
        recent: Mapping[tuple[str, UserId], int],
        leased: Mapping[str, int],
        routers: Sequence[RouterForecast],
    ) -> dict[str, int]:
        """Leased jobs of a user that no router has: at most those accepted recently, because a job may have
        ended at its router, or wait there for a retry. Only of lanes that belong to one user."""
        if self._live.current.lanes.strategy is not LaneStrategy.PER_USER:
            return {}
        found = {}
        for (lane, user), count in recent.items():
            sent = sum(router.requests_of(encode_id(USER, user)) for router in routers)
            found[lane] = max(0, min(count, leased[lane] - sent))
        return found

    async def _forecasts(self) -> list[RouterForecast]:
        try:
            async with asyncio.timeout(ROUTER_TIMEOUT_S):
                statuses = await self._router.status()
        except TimeoutError:
            return []
        return [RouterForecast(status.queues) for status in statuses if status.queues is not None]

    def _target(self, spec: Mapping[str, Any], stage: int, tier: Tier, user: UserId | None) -> EstimateTarget:
        model, region = first_target(spec, stage)
        config = self._live.current
        rank = config.ranks[config.known_tier(tier)]
        configured = config.models.get(model)
        return EstimateTarget(
            model,
            region,
            tuple(config.tiers)[: rank + 1],
            user="" if user is None else encode_id(USER, user),
            movable=spec.get("failover") != Failover.PINNED,
            exclusive=configured is not None and configured.exclusive,
        )
