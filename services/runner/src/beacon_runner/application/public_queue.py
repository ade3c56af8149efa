"""The queue as a list: what runs, what waits in the order of its turns, what waits for another try."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from beacon_config import BeaconConfig
from beacon_contracts.ids import UserId, encode_job_id
from beacon_contracts.jobs import JobState
from beacon_contracts.public_queue import (
    ExploredJob,
    PublicJob,
    PublicQueue,
    QueueCounts,
    QueueExplorer,
    RunnerStatus,
)
from beacon_contracts.router_status import SchedulerStatus, SchedulerView
from beacon_contracts.tiers import Tier
from beacon_lifecycle import Clock
from beacon_runner.application.cached_snapshot import Picture
from beacon_runner.domain.standing import estimated_wait_s
from beacon_runner.ports.queue_admin import QueueAdmin, Upcoming
from beacon_runner.ports.router import RouterPort
from beacon_runner.postgres.job_queries import LiveJob, Reader

LISTED = 200
FRESH_S = 1.0
PATIENCE_S = 5.0
OLDEST_S = 30.0


@dataclass(frozen=True, slots=True)
class Listing:
    upcoming: Upcoming
    jobs: Sequence[LiveJob]


class Explorer:
    """Everybody looks at the same picture, so a crowd of watchers costs one look a second."""

    def __init__(
        self, config: BeaconConfig, queue: QueueAdmin, reader: Reader, router: RouterPort, clock: Clock
    ) -> None:
        self._config = config
        self._queue = queue
        self._reader = reader
        self._listing = Picture("queue-listing", self._take, clock, fresh_s=FRESH_S)
        self._schedulers = Picture("schedulers", router.scheduler, clock, fresh_s=FRESH_S)

    async def public(self) -> PublicQueue:
        listing = await self._look()
        jobs = [_public(job, place) for place, job in enumerate(listing.jobs, 1)]
        running = (job.id for job in jobs if job.status is JobState.PROCESSING)
        return PublicQueue(queue_length=_total(listing), current_job=next(running, None), jobs=jobs)

    async def explore(self, viewer: UserId | None) -> QueueExplorer:
        """`viewer` None is an operator, to whom every job is theirs to see."""
        listing = await self._look()
        jobs = [_explored(job, place, viewer) for place, job in enumerate(listing.jobs, 1)]
        return QueueExplorer(jobs=jobs, total=_total(listing))

    async def status(self) -> RunnerStatus:
        listing = await self._look()
        schedulers = await self._schedulers.fresh(PATIENCE_S) or []
        upcoming = listing.upcoming
        return RunnerStatus(
            status="ok" if schedulers else "no router answers",
            scheduler=schedulers[0].scheduler if schedulers else self._idle_scheduler(),
            estimated_wait=self._waits(listing, schedulers),
            queue=QueueCounts(running=upcoming.leased, waiting=upcoming.waiting, retrying=upcoming.retries),
        )

    async def close(self) -> None:
        await self._listing.close()
        await self._schedulers.close()

    async def _look(self) -> Listing:
        await self._listing.fresh(PATIENCE_S)
        seen = self._listing.last(OLDEST_S)
        if seen is None:
            raise ConnectionError("the queue cannot be listed now")
        return seen

    async def _take(self) -> Listing:
        upcoming = await self._queue.upcoming(LISTED)
        chosen = [*upcoming.running, *upcoming.next_up, *upcoming.retrying][:LISTED]
        found = {job.id: job for job in await self._reader.live_jobs(chosen)}
        return Listing(upcoming, [found[job] for job in chosen if job in found])

    def _waits(self, listing: Listing, schedulers: Sequence[SchedulerStatus]) -> dict[str, float]:
        """What waits at the routers and here for the same model; the share of each is that of the list."""
        waiting = [job for job in listing.jobs if job.state is JobState.QUEUED]
        listed = Counter(job.model for job in waiting)
        waits = {}
        for model in self._config.models:
            at_router = [one.estimated_wait[model] for one in schedulers if model in one.estimated_wait]
            share = listed[model] / len(waiting) if waiting else 0.0
            here = estimated_wait_s(self._config, model, round(share * listing.upcoming.waiting))
            waits[model] = round(here + min(at_router, default=0.0), 2)
        return waits

    def _idle_scheduler(self) -> SchedulerView:
        return SchedulerView(
            max_batch_size=self._config.router.batch_limit,
            starvation_timeouts={tier: self._config.tiers[tier].starvation_bound_s for tier in Tier},
            starvation_weights={tier: self._config.tiers[tier].starvation_weight for tier in Tier},
        )


def _total(listing: Listing) -> int:
    return listing.upcoming.leased + listing.upcoming.waiting + listing.upcoming.retries


def _public(job: LiveJob, place: int) -> PublicJob:
    return PublicJob(id=encode_job_id(job.id), status=job.state, model=job.model, position=place)


def _explored(job: LiveJob, place: int, viewer: UserId | None) -> ExploredJob:
    mine = viewer is None or job.user == viewer
    done = round(100 * job.over / max(job.total, 1))
    return ExploredJob(
        id=encode_job_id(job.id),
        status=job.state,
        model=job.model,
        position=place,
        duration=job.duration_s,
        priority=job.tier,
        progress=_progress(job, done),
        progress_pct=done,
        mine=mine,
        name=job.name if mine else None,
    )


def _progress(job: LiveJob, done: int) -> str:
    if job.state is JobState.PROCESSING:
        return f"Generating... {done}%"
    return "Waiting for another try" if job.state is JobState.RETRYING else "Waiting"
