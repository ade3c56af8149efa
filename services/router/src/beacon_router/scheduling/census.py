"""Counts the scheduler's state for a snapshot."""

from collections import Counter

from beacon_router.scheduling.decisions import Outcome
from beacon_router.scheduling.estimates import Estimator
from beacon_router.scheduling.floor import Floor
from beacon_router.scheduling.lanes import Lane, Queue
from beacon_router.scheduling.machines import Backend, Region, Run
from beacon_router.scheduling.queues import Queues
from beacon_router.scheduling.snapshot import (
    BackendSnapshot,
    LimitSnapshot,
    RegionSnapshot,
    RunSnapshot,
    Snapshot,
)


def take_snapshot(now: float, floor: Floor, queues: Queues, estimator: Estimator) -> Snapshot:
    """Costs as much as there are lanes and backends, whatever waits in them."""
    lanes = queues.lanes()
    return Snapshot(
        global_retry=queues.global_retry.count,
        regions=tuple(
            _region(now, region, [lane for lane in lanes if _at_home(lane, region)], queues, estimator)
            for region in floor.regions.values()
        ),
        limits=tuple(
            LimitSnapshot(limit.name, limit.cap, limit.held, limit.used) for limit in floor.limits.values()
        ),
    )


def _at_home(lane: Lane, region: Region) -> bool:
    return lane.queue is not Queue.GLOBAL_RETRY and lane.region == region.name


def _region(
    now: float, region: Region, lanes: list[Lane], queues: Queues, estimator: Estimator
) -> RegionSnapshot:
    by_queue: Counter[Queue] = Counter()
    by_model: Counter[str] = Counter()
    for lane in lanes:
        by_queue[lane.queue] += lane.live
        by_model[lane.model] += lane.live
    backends = [backend for fleet in region.fleets for backend in fleet.backends]
    models = sorted({model for fleet in region.fleets for model in fleet.models})
    runs = sorted((run for backend in backends for run in backend.runs.values()), key=lambda run: run.started)
    lowest = estimator.ranks - 1
    return RegionSnapshot(
        name=region.name,
        concurrency=region.concurrency,
        main=by_queue[Queue.MAIN] + by_queue[Queue.FRONT],
        front=by_queue[Queue.FRONT],
        retry=by_queue[Queue.REGION_RETRY],
        running=tuple(_run(run) for run in runs),
        completed=region.outcomes[Outcome.COMPLETED],
        failed=region.outcomes[Outcome.FAILED],
        cancelled=region.outcomes[Outcome.CANCELLED],
        by_model=dict(by_model),
        by_rank=tuple(
            queues.before_main[region.name, rank]
            + sum(lane.live for lane in lanes if lane.queue is Queue.MAIN and lane.rank == rank)
            for rank in range(estimator.ranks)
        ),
        estimated_wait={model: estimator.of_new(now, model, region.name, lowest) for model in models},
        backends=tuple(_backend(backend) for backend in backends),
    )


def _run(run: Run) -> RunSnapshot:
    request = run.request
    return RunSnapshot(request.id, request.model, run.backend.name, request.rank, run.started, run.loading)


def _backend(backend: Backend) -> BackendSnapshot:
    return BackendSnapshot(
        name=backend.name,
        region=backend.fleet.region.name,
        group=backend.spec.group,
        health=backend.health,
        slots=backend.slots,
        busy=len(backend.runs),
        loaded=tuple(backend.loaded),
        last_model=backend.loaded[-1] if backend.loaded else None,
        batch=backend.fleet.batch,
        used_at=backend.used_at,
    )
