"""Summarises a simulation by tier, user, model and backend."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, quantiles

from beacon_contracts.simulation import SimulatedBackend, SimulatedWaits, SimulationReport
from beacon_router.scheduling import BackendSpec, Topology
from beacon_router.simulation.simulator import SimulatedRun

TIMELINE_PARTS = 60


def summarise(topology: Topology, runs: Sequence[SimulatedRun]) -> SimulationReport:
    begin_s = min(run.arrival.arrival_s for run in runs)
    duration_s = max(run.ended_s for run in runs) - begin_s
    slot_s = duration_s * sum(backend.slots for backend in topology.backends)
    by_backend: dict[str, list[SimulatedRun]] = defaultdict(list)
    for run in runs:
        by_backend[run.backend].append(run)
    ranks = {run.arrival.tier: run.arrival.rank for run in runs}
    return SimulationReport(
        requests=len(runs),
        duration_s=duration_s,
        loads=sum(run.caused_load for run in runs),
        run_share=_share(sum(run.arrival.run_s for run in runs), slot_s),
        load_share=_share(sum(run.load_s for run in runs), slot_s),
        tiers=sorted(_grouped(runs, lambda run: run.arrival.tier), key=lambda tier: ranks[tier.name]),
        users=sorted(_grouped(runs, lambda run: run.arrival.user), key=lambda user: -user.gpu_s),
        models=sorted(_grouped(runs, lambda run: run.arrival.model), key=lambda model: model.name),
        backends=[
            _backend(backend, by_backend[backend.name], begin_s, duration_s) for backend in topology.backends
        ],
    )


def _grouped(runs: Iterable[SimulatedRun], key: Callable[[SimulatedRun], str]) -> Iterable[SimulatedWaits]:
    groups: dict[str, list[SimulatedRun]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return [_waits(name, members) for name, members in groups.items()]


def _waits(name: str, runs: Sequence[SimulatedRun]) -> SimulatedWaits:
    waits = [run.wait_s for run in runs]
    percentiles = quantiles(waits, n=100, method="inclusive") if len(waits) > 1 else waits * 99
    return SimulatedWaits(
        name=name,
        requests=len(runs),
        gpu_s=sum(run.load_s + run.arrival.run_s for run in runs),
        mean_wait_s=fmean(waits),
        p50_wait_s=percentiles[49],
        p95_wait_s=percentiles[94],
        max_wait_s=max(waits),
        loads=sum(run.caused_load for run in runs),
    )


def _backend(
    spec: BackendSpec, runs: Sequence[SimulatedRun], begin_s: float, duration_s: float
) -> SimulatedBackend:
    slot_s = duration_s * spec.slots
    return SimulatedBackend(
        name=spec.name,
        region=spec.region,
        slots=spec.slots,
        run_share=_share(sum(run.arrival.run_s for run in runs), slot_s),
        load_share=_share(sum(run.load_s for run in runs), slot_s),
        timeline=_timeline(runs, begin_s, duration_s / TIMELINE_PARTS, spec.slots),
    )


def _timeline(runs: Iterable[SimulatedRun], begin_s: float, part_s: float, slots: int) -> list[float]:
    """Of each part of the time, the share of the slots that was in use."""
    used_s = [0.0] * TIMELINE_PARTS
    for run in runs:
        start_s, end_s = run.started_s - begin_s, run.ended_s - begin_s
        first, last = (min(int(_share(at, part_s)), TIMELINE_PARTS - 1) for at in (start_s, end_s))
        for part in range(first, last + 1):
            used_s[part] += max(0.0, min(end_s, (part + 1) * part_s) - max(start_s, part * part_s))
    return [_share(used, part_s * slots) for used in used_s]


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
