"""The queue as a list: running jobs, waiting jobs in the order of service, jobs between two attempts."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from beacon_config import LiveConfig
from beacon_contracts.ids import InvalidIdError, JobId, decode_execution_id, encode_job_id
from beacon_contracts.jobs import JobState
from beacon_contracts.public_queue import (
    OwnQueueEntry,
    PublicJob,
    PublicQueue,
    QueueCounts,
    QueueEntries,
    QueueEntry,
    RunnerStatus,
)
from beacon_contracts.router_status import SchedulerStatus, SchedulerView
from beacon_lifecycle import Clock
from beacon_runner.application.cached_snapshot import CachedSnapshot
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.errors import QueueUnavailableError
from beacon_runner.domain.jobs.records import LiveJob
from beacon_runner.ports.jobs import JobQueries
from beacon_runner.ports.queue_admin import QueueAdmin, Upcoming
from beacon_runner.ports.router import RouterPort, RouterStatus

MAX_LISTED = 200
FRESH_S = 1.0
TIMEOUT_S = 5.0
MAX_AGE_S = 30.0

SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class QueueListing:
    """`jobs`: those on a GPU, which `on_gpu` counts, then those that wait in the order of service."""

    upcoming: Upcoming
    jobs: Sequence[LiveJob]
    on_gpu: int

    @property
    def total(self) -> int:
        return self.upcoming.leased + self.upcoming.waiting + self.upcoming.retries


class PublicQueueService:
    """All clients share one snapshot, so any number of them costs one read a second."""

    def __init__(
        self, live: LiveConfig, queue: QueueAdmin, queries: JobQueries, router: RouterPort, clock: Clock
    ) -> None:
        self._live = live
        self._queue = queue
        self._queries = queries
        self._router = router
        self._listing = CachedSnapshot("queue-listing", self._load, clock, fresh_s=FRESH_S)
        self._schedulers = CachedSnapshot("schedulers", router.scheduler, clock, fresh_s=FRESH_S)

    async def queue_status(self) -> PublicQueue:
        listing = await self._current()
        jobs = [
            PublicJob(id=encode_job_id(job.id), status=job.state, model=job.model, position=position)
            for position, job in enumerate(listing.jobs, 1)
        ]
        running = (job.id for job in jobs if job.status is JobState.PROCESSING)
        return PublicQueue(queue_length=listing.total, current_job=next(running, None), jobs=jobs)

    async def entries(self, viewer: Principal | None) -> QueueEntries:
        """`viewer` None: without a key no job is marked as the viewer's own; an operator sees every name."""
        listing = await self._current()
        jobs = [_entry(job, position, viewer) for position, job in enumerate(listing.jobs, 1)]
        return QueueEntries(jobs=jobs, total=listing.total)

    async def status(self) -> RunnerStatus:
        listing = await self._current()
        schedulers = await self._schedulers.fresh(TIMEOUT_S) or []
        upcoming = listing.upcoming
        return RunnerStatus(
            status="ok" if schedulers else "no router answers",
            scheduler=schedulers[0].scheduler if schedulers else self._idle_scheduler(),
            estimated_wait=self._waits(schedulers),
            queue=QueueCounts(
                running=listing.on_gpu,
                waiting=upcoming.leased + upcoming.waiting - listing.on_gpu,
                retrying=upcoming.retries,
            ),
        )

    async def close(self) -> None:
        await self._listing.close()
        await self._schedulers.close()

    async def _current(self) -> QueueListing:
        await self._listing.fresh(TIMEOUT_S)
        listing = self._listing.latest(MAX_AGE_S)
        if listing is None:
            raise QueueUnavailableError("the queue cannot be listed now")
        return listing

    async def _load(self) -> QueueListing:
        upcoming = await self._queue.upcoming(MAX_LISTED)
        on_gpu = _jobs_on_gpus(await self._router.status())
        in_order = (*on_gpu, *upcoming.running, *upcoming.next_up, *upcoming.retrying)
        listed = list(dict.fromkeys(in_order))[:MAX_LISTED]
        found = {job.id: job for job in await self._queries.live_jobs(listed)}
        jobs = [found[job] for job in listed if job in found]
        jobs.sort(key=lambda job: job.state is not JobState.PROCESSING)
        return QueueListing(upcoming, jobs, min(upcoming.leased, len(on_gpu)))

    def _waits(self, schedulers: Sequence[SchedulerStatus]) -> dict[str, float | None]:
        """As the routers estimate them; None where nothing can run a model."""
        return {
            model: min(
                (one.estimated_wait[model] for one in schedulers if model in one.estimated_wait), default=None
            )
            for model in self._live.current.models
        }

    def _idle_scheduler(self) -> SchedulerView:
        tiers = self._live.current.tiers.items()
        return SchedulerView(
            max_batch_size=self._live.current.router.batch_limit,
            starvation_timeouts={name: tier.starvation_bound_s for name, tier in tiers},
            starvation_weights={name: tier.starvation_weight for name, tier in tiers},
        )


def _jobs_on_gpus(routers: Sequence[RouterStatus]) -> Sequence[JobId]:
    """In the order of their starts in each region."""
    queues = [router.queues for router in routers if router.queues is not None]
    found: dict[JobId, None] = {}
    for run in (run for one in queues for region in one.regions.values() for run in region.running):
        with suppress(InvalidIdError):  # an interactive request belongs to no job
            found[decode_execution_id(run.request_id)[0]] = None
    return list(found)


def _entry(job: LiveJob, position: int, viewer: Principal | None) -> QueueEntry:
    percent = round(100 * job.ended / max(job.total, 1))
    entry = QueueEntry(
        id=encode_job_id(job.id),
        status=job.state,
        model=job.model,
        position=position,
        duration=job.duration_s,
        priority=SKIPPED if job.front else job.tier,
        progress=_progress(job, percent),
        progress_pct=percent,
    )
    if viewer is None or viewer.owner not in (None, job.user):
        return entry
    return OwnQueueEntry(**entry.model_dump(), name=job.name)


def _progress(job: LiveJob, percent: int) -> str:
    if job.state is JobState.PROCESSING:
        return f"Generating... {percent}%"
    return "Waiting for the next attempt" if job.state is JobState.RETRYING else "Waiting"
