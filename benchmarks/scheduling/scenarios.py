"""What is simulated: regions of GPUs, and requests that keep them as busy as asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from beacon_router.scheduling import BackendSpec, ModelSpec, RegionSpec, Scheduler, Topology
from benchmarks.scheduling.figures import offered_load
from benchmarks.scheduling.simulator import Simulator
from benchmarks.scheduling.traces import read_trace, trace_files
from benchmarks.scheduling.workload import (
    Arrival,
    Askers,
    People,
    bursty,
    model_catalogue,
    poisson,
    stretched,
)

GPUS, MODELS = 8, 12
"""GPUs in a region, and models that all of them serve, one loaded at a time."""
LOAD = 0.9
"""The share of GPU time, loads included, that is in use under Beacon's policy."""
RATE = 2.0
_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    topology: Topology
    arrivals: list[Arrival]


def all_scenarios(traces: str | None, seed: int, seconds: float) -> Iterator[Scenario]:
    """Two generated ones, and one for each trace in the directory."""
    models = model_catalogue(MODELS, seed)
    for name, moments in (("Poisson", poisson), ("bursts", bursty)):
        askers = Askers(People(), models, seed)
        yield _scenario(name, models, [askers.ask(moment) for moment in moments(RATE, seconds, seed)])
    for path in trace_files(traces):
        yield _scenario(path.stem, models, read_trace(path, Askers(People(), models, seed)))


def place(arrivals: Sequence[Arrival], catalogue: Sequence[ModelSpec]) -> Topology:
    """Every region that is asked for, with the same GPUs, which serve every model that is asked for."""
    known = {model.name: model for model in catalogue}
    wanted = sorted({arrival.model for arrival in arrivals})
    regions = sorted({arrival.region for arrival in arrivals})
    return Topology(
        regions=tuple(RegionSpec(region) for region in regions),
        models=tuple(known.get(model, ModelSpec(model)) for model in wanted),
        backends=tuple(
            BackendSpec(f"{region}-{number}", region, frozenset(wanted))
            for region in regions
            for number in range(1, GPUS + 1)
        ),
    )


def _scenario(name: str, catalogue: Sequence[ModelSpec], arrivals: list[Arrival]) -> Scenario:
    topology = place(arrivals, catalogue)
    return Scenario(name, topology, as_busy_as(LOAD, topology, arrivals))


def as_busy_as(load: float, topology: Topology, arrivals: list[Arrival]) -> list[Arrival]:
    """The same requests, arriving so fast that the GPUs are in use for this share of the time."""
    for _ in range(_ROUNDS):
        seen = Simulator(topology, Scheduler(topology), foretell=False).run(arrivals)
        load_now = offered_load(seen, len(topology.backends))
        if abs(load_now - load) < 0.005:
            break
        arrivals = stretched(arrivals, load_now / load)
    return arrivals
