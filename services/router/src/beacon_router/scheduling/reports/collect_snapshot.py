"""Counts the scheduler's state for a snapshot."""

from collections import Counter, defaultdict

from beacon_router.scheduling.decisions import Health, Outcome
from beacon_router.scheduling.durations import Durations
from beacon_router.scheduling.forecast.estimator import Estimator
from beacon_router.scheduling.reports.snapshot import (
    BackendSnapshot,
    LimitSnapshot,
    RegionSnapshot,
    RunSnapshot,
    Snapshot,
    WorkSnapshot,
)
from beacon_router.scheduling.state.backend_state import BackendState, RegionState, RunningRequest
from beacon_router.scheduling.state.cluster_state import ClusterState
from beacon_router.scheduling.state.queues import RequestQueues
from beacon_router.scheduling.state.request_queue import QueueKind, RequestQueue

MAX_USERS = 1_000


def collect_snapshot(
    now: float, state: ClusterState, queues: RequestQueues, estimator: Estimator
) -> Snapshot:
    """Its cost grows with queues and backends; of the retry queues and the paid front with their requests."""
    waiting = queues.queues()
    return Snapshot(
        global_retry=sum(queue.size for queue in waiting if queue.kind is QueueKind.GLOBAL_RETRY),
        regions=tuple(
            _region(now, region, waiting, estimator, state)
            for region in state.regions.values()
            if region.configured or any(backend.runs for each in region.sets for backend in each.backends)
        ),
        limits=tuple(
            LimitSnapshot(limit.name, limit.cap, limit.held, limit.used) for limit in state.limits.values()
        ),
    )


def _region(
    now: float,
    region: RegionState,
    waiting: list[RequestQueue],
    estimator: Estimator,
    state: ClusterState,
) -> RegionSnapshot:
    here = [queue for queue in waiting if queue.region == region.name]
    queues = [queue for queue in here if queue.kind is not QueueKind.GLOBAL_RETRY]
    by_kind: Counter[QueueKind] = Counter()
    by_model: Counter[str] = Counter()
    for queue in queues:
        by_kind[queue.kind] += queue.size
        by_model[queue.model] += queue.size
    everywhere = [backend for each in region.sets for backend in each.backends]
    backends = [backend for backend in everywhere if backend.runs or not backend.spec.leaving]
    models = sorted({model for backend in backends for model in backend.spec.models})
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
        work=_work(now, backends, here, state.durations),
        by_rank=_by_rank(queues, estimator.tiers),
        requests_by_user=dict(sum((each.requests() for each in state.shares[region.name]), Counter[str]())),
        estimated_wait={
            model: eta for model in models if (eta := estimator.of_new(now, model, region.name, lowest))
        },
        forecasts={
            model: forecast for model in models if (forecast := estimator.forecast(now, model, region.name))
        },
        by_user=tuple(estimator.of_users(now, region.name, MAX_USERS)),
        backends=tuple(_backend(backend) for backend in backends),
    )


def _work(
    now: float,
    backends: list[BackendState],
    queues: list[RequestQueue],
    durations: Durations,
) -> dict[str, WorkSnapshot]:
    waiting: Counter[str] = Counter()
    running: Counter[str] = Counter()
    left_s: dict[str, float] = defaultdict(float)
    for queue in queues:
        waiting[queue.model] += queue.size
    for backend in backends:
        for run, ends in backend.likely_ends(now).items():
            running[run.request.model] += 1
            left_s[run.request.model] += ends - now
    found = {}
    for model in sorted({model for backend in backends for model in backend.spec.models} | waiting.keys()):
        serving = [backend for backend in backends if model in backend.spec.models]
        run_s = _mean([backend.runs_s.of(model) for backend in serving] or [durations.runs.of(model)])
        found[model] = WorkSnapshot(
            waiting=waiting[model],
            running=running[model],
            ahead_s=waiting[model] * run_s + left_s[model],
            run_s=run_s,
            load_s=_mean([backend.loads_s.of(model) for backend in serving] or [durations.loads.of(model)]),
            slots=sum(backend.slots for backend in serving if backend.health is not Health.OPEN),
        )
    return found


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


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
        models=tuple(sorted(backend.spec.models)),
        loaded=tuple(backend.loaded),
        last_model=backend.loaded[-1] if backend.loaded else None,
        batch=backend.backend_set.batch,
        used_at=backend.used_at,
    )
