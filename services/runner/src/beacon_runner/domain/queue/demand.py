"""The work for GPUs by model and region, from what the runner has not sent yet and what the routers hold."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from beacon_config import BeaconConfig
from beacon_contracts.demand import DemandTotals, GpuDemand, ModelDemand
from beacon_contracts.inference import EtaView
from beacon_contracts.router_status import ModelWork, QueueStatus

DEFAULT_TARGET_WAIT_S = 60.0


class GpuTarget(NamedTuple):
    model: str
    region: str


@dataclass(slots=True)
class _Work:
    """`seconds`: of runs and loads as each router measures them."""

    waiting: int = 0
    running: int = 0
    gpu_seconds: float = 0.0
    slots: int = 0
    seconds: list[tuple[float, float]] = field(default_factory=list)
    waits: list[EtaView] = field(default_factory=list)


def demand_of(
    config: BeaconConfig,
    unsent: Mapping[GpuTarget, int],
    routers: Sequence[QueueStatus],
    *,
    target_wait_s: float = DEFAULT_TARGET_WAIT_S,
    models: Collection[str] = (),
    regions: Collection[str] = (),
    unavailable: Sequence[str] = (),
) -> GpuDemand:
    """`unsent`: executions that no router has. `models` and `regions` restrict the answer if given."""
    served = {
        GpuTarget(model, backend.region) for backend in config.backends.values() for model in backend.models
    }
    works = {target: _Work() for target in sorted(served | unsent.keys())}
    for router in routers:
        for name, region in router.regions.items():
            for model, work in region.work.items():
                eta = region.estimated_wait.get(model)
                total = works.setdefault(GpuTarget(model, name), _Work())
                _add(total, work, eta, paused=_is_paused(config, model))
    found = [
        _model_demand(config, target, work, unsent.get(target, 0), target_wait_s)
        for target, work in works.items()
        if (not models or target.model in models) and (not regions or target.region in regions)
    ]
    return GpuDemand(
        target_wait_s=target_wait_s,
        total=_totals(found),
        models=found,
        unavailable_routers=list(unavailable),
    )


def slots_needed(gpu_seconds: float, count: int, target_wait_s: float) -> int:
    """So many slots do the work within the target; more than requests are of no use."""
    return min(count, max(1, ceil(gpu_seconds / target_wait_s)))


def _is_paused(config: BeaconConfig, model: str) -> bool:
    return model in config.models and config.models[model].paused


def _add(total: _Work, work: ModelWork, eta: EtaView | None, *, paused: bool) -> None:
    """Routers share the slots, and each has requests of its own. What waits for a paused model needs none."""
    total.waiting += work.waiting
    total.running += work.running
    total.gpu_seconds += work.ahead_s - (work.waiting * work.run_s if paused else 0.0)
    total.slots = max(total.slots, work.slots)
    total.seconds.append((work.run_s, work.load_s))
    if eta is not None:
        total.waits.append(eta)


def _model_demand(
    config: BeaconConfig, target: GpuTarget, work: _Work, unsent: int, target_wait_s: float
) -> ModelDemand:
    run_s, load_s = _seconds(config, target.model, work)
    paused = _is_paused(config, target.model)
    unsent_s = 0.0 if paused else unsent * run_s
    waiting, gpu_seconds = work.waiting + unsent, work.gpu_seconds + unsent_s
    startable = work.running + (0 if paused else waiting)
    wait = min(work.waits, key=lambda eta: eta.p50_s, default=None)
    # What is not sent yet arrives before a new request.
    more_s = unsent_s / work.slots if work.slots else 0.0
    return ModelDemand(
        model=target.model,
        region=target.region,
        waiting=waiting,
        running=work.running,
        gpu_seconds=round(gpu_seconds, 3),
        slots=work.slots,
        slots_needed=slots_needed(gpu_seconds, startable, target_wait_s),
        run_s=round(run_s, 3),
        load_s=round(load_s, 3),
        wait_p50_s=None if wait is None else round(wait.p50_s + more_s, 3),
        wait_p90_s=None if wait is None else round(wait.p90_s + more_s, 3),
    )


def _seconds(config: BeaconConfig, model: str, work: _Work) -> tuple[float, float]:
    if work.seconds:
        runs, loads = zip(*work.seconds, strict=True)
        return sum(runs) / len(runs), sum(loads) / len(loads)
    configured = config.models.get(model)
    return (0.0, 0.0) if configured is None else (configured.expected_run_s, configured.expected_load_s)


def _totals(found: Sequence[ModelDemand]) -> DemandTotals:
    return DemandTotals(
        waiting=sum(one.waiting for one in found),
        running=sum(one.running for one in found),
        gpu_seconds=round(sum(one.gpu_seconds for one in found), 3),
        slots=sum(one.slots for one in found),
        slots_needed=sum(one.slots_needed for one in found),
    )
