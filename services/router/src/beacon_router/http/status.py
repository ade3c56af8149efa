"""The router's status, from the scheduler's snapshot and the service's counters."""

from beacon_config import BeaconConfig, LiveConfig
from beacon_contracts.inference import EtaView
from beacon_contracts.router_status import (
    BackendStatus,
    BreakerStatus,
    LimitStatus,
    ModelForecast,
    ModelWork,
    QueueStatus,
    RegionStatus,
    RunningInference,
    SchedulerStatus,
    SchedulerView,
    UserForecast,
)
from beacon_router.scheduling import (
    BackendSnapshot,
    Health,
    LimitSnapshot,
    RegionSnapshot,
    RunSnapshot,
    Snapshot,
)
from beacon_router.service.dispatch_service import DispatchService


class StatusReader:
    def __init__(self, live: LiveConfig, dispatch: DispatchService) -> None:
        self._live = live
        self._dispatch = dispatch
        self._scheduler = dispatch.scheduler
        self._runs = dispatch.runs
        self._clock = dispatch.clock

    @property
    def _config(self) -> BeaconConfig:
        return self._live.current

    @property
    def _tiers(self) -> tuple[str, ...]:
        return tuple(self._live.current.tiers)

    def queues(self) -> QueueStatus:
        now = self._clock.now()
        snapshot = self._scheduler.snapshot(now)
        limits = [_limit(limit) for limit in snapshot.limits]
        return QueueStatus(
            regions={region.name: self._region(region, now) for region in snapshot.regions},
            global_retry=snapshot.global_retry,
            backing_off=self._runs.backing_off,
            waiting=self._runs.waiting(),
            running=self._scheduler.running(),
            groups={limit.name: limit for limit in limits if limit.kind == "group"},
            model_limits={limit.name: limit for limit in limits if limit.kind == "model"},
            users={region.name: self._users(region) for region in snapshot.regions},
            held_bytes=self._dispatch.store.bytes,
            stopping=self._dispatch.stopping,
        )

    def region(self, name: str) -> RegionStatus | None:
        """The status of a region under any of its names."""
        resolved = self._config.region_names.get(name.casefold())
        now = self._clock.now()
        for region in self._scheduler.snapshot(now).regions:
            if region.name == resolved:
                return self._region(region, now)
        return None

    def scheduler(self) -> SchedulerStatus:
        snapshot = self._scheduler.snapshot(self._clock.now())
        last = _last_used(snapshot)
        tiers = self._config.tiers.items()
        return SchedulerStatus(
            status="stopping" if self._dispatch.stopping else "ok",
            scheduler=SchedulerView(
                last_model_used=None if last is None else last.last_model,
                batch_count=0 if last is None else last.batch,
                max_batch_size=self._config.router.batch_limit,
                starvation_timeouts={name: tier.starvation_bound_s for name, tier in tiers},
                starvation_weights={name: tier.starvation_weight for name, tier in tiers},
            ),
            estimated_wait=_shortest_waits(snapshot),
            waiting=self._runs.waiting(),
            running=self._scheduler.running(),
        )

    def _region(self, region: RegionSnapshot, now: float) -> RegionStatus:
        backends = [self._backend(backend) for backend in region.backends]
        return RegionStatus(
            region=region.name,
            concurrency=region.concurrency,
            main=region.main,
            front=region.front,
            retry=region.retry,
            running=[self._running(run, now) for run in region.running],
            completed=region.completed,
            failed=region.failed,
            cancelled=region.cancelled,
            by_model=region.by_model,
            by_tier={self._tiers[rank]: count for rank, count in enumerate(region.by_rank) if count},
            requests_by_user=region.requests_by_user,
            estimated_wait={
                model: EtaView(p50_s=eta.p50_s, p90_s=eta.p90_s)
                for model, eta in region.estimated_wait.items()
            },
            work={
                model: ModelWork(
                    waiting=work.waiting,
                    running=work.running,
                    ahead_s=work.ahead_s,
                    run_s=work.run_s,
                    load_s=work.load_s,
                    slots=work.slots,
                )
                for model, work in region.work.items()
            },
            forecast={
                model: ModelForecast(
                    wait_s=dict(zip(self._tiers, forecast.waits_s, strict=False)),
                    pace_s=forecast.pace_s,
                    free=forecast.free,
                    then_s=forecast.then_s,
                )
                for model, forecast in region.forecasts.items()
            },
            slots=sum(backend.slots for backend in region.backends),
            busy=sum(backend.busy for backend in region.backends),
            healthy=any(backend.breaker.state != Health.OPEN for backend in backends),
            backends=backends,
        )

    def _backend(self, backend: BackendSnapshot) -> BackendStatus:
        return BackendStatus(
            name=backend.name,
            region=backend.region,
            group=backend.group,
            slots=backend.slots,
            busy=backend.busy,
            models=list(backend.models),
            loaded_models=list(backend.loaded),
            last_model=backend.last_model,
            batch=backend.batch,
            breaker=BreakerStatus.model_validate(self._dispatch.breakers.describe(backend.name)),
        )

    def _running(self, run: RunSnapshot, now: float) -> RunningInference:
        return RunningInference(
            request_id=run.id,
            model=run.model,
            backend=run.backend,
            tier=self._tiers[run.rank],
            running_s=max(0.0, now - run.started_at),
            warming=run.loading,
        )

    def _users(self, region: RegionSnapshot) -> dict[str, dict[str, dict[str, UserForecast]]]:
        return {
            self._tiers[rank]: {
                user: {
                    model: UserForecast(waiting=one.waiting, next_s=one.next_s, pace_s=one.pace_s)
                    for model, one in models.items()
                }
                for user, models in users.items()
            }
            for rank, users in enumerate(region.by_user)
            if users
        }


def _limit(limit: LimitSnapshot) -> LimitStatus:
    kind, _, name = limit.name.partition(":")
    return LimitStatus(name=name, kind=kind, cap=limit.cap, held=limit.held, used=limit.used)


def _last_used(snapshot: Snapshot) -> BackendSnapshot | None:
    """The backend of the last dispatch."""
    backends = [
        backend
        for region in snapshot.regions
        for backend in region.backends
        if backend.last_model is not None
    ]
    return max(backends, key=lambda backend: backend.used_at, default=None)


def _shortest_waits(snapshot: Snapshot) -> dict[str, float]:
    """Per model, the estimated wait in the region where it is shortest."""
    waits: dict[str, float] = {}
    for region in snapshot.regions:
        for model, eta in region.estimated_wait.items():
            waits[model] = min(eta.p50_s, waits.get(model, eta.p50_s))
    return waits
