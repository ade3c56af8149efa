"""Counts the scheduler's state for a snapshot."""

from collections import Counter

from beacon_router.scheduling.backend_state import BackendState, RegionState, RunningRequest
from beacon_router.scheduling.cluster_state import ClusterState
from beacon_router.scheduling.decisions import Outcome
from beacon_router.scheduling.forecast.estimator import Estimator
from beacon_router.scheduling.queues import RequestQueues
from beacon_router.scheduling.request_queue import QueueKind, RequestQueue
from beacon_router.scheduling.snapshot import (
    BackendSnapshot,
    LimitSnapshot,
    RegionSnapshot,
    RunSnapshot,
    Snapshot,
)

MAX_USERS = 1_000


def collect_snapshot(
    now: float, state: ClusterState, queues: RequestQueues, estimator: Estimator
) -> Snapshot:
    """Its cost grows with queues and backends; of the retry queues and the paid front with their requests."""
    waiting = queues.queues()
    return Snapshot(
        global_retry=sum(queue.size for queue in waiting if queue.kind is QueueKind.GLOBAL_RETRY),
        regions=tuple(_region(now, region, waiting, estimator) for region in state.regions.values()),
        limits=tuple(
            LimitSnapshot(limit.name, limit.cap, limit.held, limit.used) for limit in state.limits.values()
        ),
    )


def _region(
    now: float,
    region: RegionState,
    waiting: list[RequestQueue],
    estimator: Estimator,
) -> RegionSnapshot:
    queues = [
        queue for queue in waiting if queue.kind is not QueueKind.GLOBAL_RETRY and queue.region == region.name
    ]
    by_kind: Counter[QueueKind] = Counter()
    by_model: Counter[str] = Counter()
    for queue in queues:
        by_kind[queue.kind] += queue.size
        by_model[queue.model] += queue.size
    backends = [backend for each in region.sets for backend in each.backends]
    models = sorted({model for each in region.sets for model in each.models})
    runs = sorted((run for backend in backends for run in backend.runs.values()), key=lambda run: run.started)
    lowest = estimator.tiers - 1
    return RegionSnapshot(
        name=region.name,
        concurrency=region.concurrency,
        main=by_kind[QueueKind.MAIN] + by_kind[QueueKind.FRONT] + by_kind[QueueKind.ATTACH],
        front=by_kind[QueueKind.FRONT],
        retry=by_kind[QueueKind.REGION_RETRY],
        running=tuple(_run(run) for run in runs),
        completed=region.outcomes[Outcome.COMPLETED],
        failed=region.outcomes[Outcome.FAILED],
        cancelled=region.outcomes[Outcome.CANCELLED],
        by_model=dict(by_model),
        by_rank=_by_rank(queues, estimator.tiers),
        estimated_wait={
            model: eta for model in models if (eta := estimator.of_new(now, model, region.name, lowest))
        },
        forecasts={
            model: forecast for model in models if (forecast := estimator.forecast(now, model, region.name))
        },
        by_user=tuple(estimator.of_users(now, region.name, MAX_USERS)),
        backends=tuple(_backend(backend) for backend in backends),
    )


def _by_rank(queues: list[RequestQueue], tiers: int) -> tuple[int, ...]:
    counts: Counter[int] = Counter()
    for queue in queues:
        if queue.kind is QueueKind.MAIN:
            counts[queue.rank] += queue.size
        else:  # requests of all tiers
            counts.update(queued.request.rank for queued in queue.requests())
    return tuple(counts[rank] for rank in range(tiers))


def _run(run: RunningRequest) -> RunSnapshot:
    request = run.request
    return RunSnapshot(request.id, request.model, run.backend.name, request.rank, run.started, run.loading)


def _backend(backend: BackendState) -> BackendSnapshot:
    return BackendSnapshot(
        name=backend.name,
        region=backend.region.name,
        group=backend.spec.group,
        health=backend.health,
        slots=backend.slots,
        busy=len(backend.runs),
        loaded=tuple(backend.loaded),
        last_model=backend.loaded[-1] if backend.loaded else None,
        batch=backend.backend_set.batch,
        used_at=backend.used_at,
    )
