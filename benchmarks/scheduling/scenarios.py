"""The scenarios: three regions of GPUs, and arrivals with the required load."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from beacon_router.scheduling import BackendSpec, ModelSpec, RegionSpec, Topology
from benchmarks.scheduling.figures import offered_load
from benchmarks.scheduling.simulator import PolicyUnderTest, Simulator
from benchmarks.scheduling.traces import read_trace, trace_files
from benchmarks.scheduling.workload import (
    Arrival,
    WorkloadGenerator,
    bursty,
    model_catalogue,
    poisson,
    stretched,
)

GPUS, MODELS = 8, 12
"""GPUs of a region, and models that all of them serve, one loaded at a time."""
RATE = 2.0
_ROUNDS, _TOLERANCE = 7, 0.01


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    topology: Topology
    arrivals: list[Arrival]

    def at_load(self, load: float, make: Callable[[Topology], PolicyUnderTest]) -> "Scenario":
        """The same requests at a rate at which this policy uses this share of the GPU time."""
        arrivals = self.arrivals
        for _ in range(_ROUNDS):
            records = Simulator(self.topology, make(self.topology)).run(arrivals)
            found = offered_load(records, len(self.topology.backends))
            if abs(found - load) < _TOLERANCE:
                break
            arrivals = stretched(arrivals, found / load)
        return Scenario(self.name, self.topology, arrivals)


def all_scenarios(traces: str | None, seed: int, requests: int) -> Iterator[Scenario]:
    """Two generated ones, and one for each trace in the directory."""
    models = model_catalogue(MODELS, seed)
    for name, moments in (("Poisson", poisson), ("bursts", bursty)):
        generator = WorkloadGenerator(models, seed)
        arrivals = [generator.arrival(moment) for moment in moments(RATE, requests / RATE, seed)]
        yield Scenario(name, topology_for(arrivals, models), arrivals)
    for path in trace_files(traces):
        arrivals = read_trace(path, WorkloadGenerator(models, seed))[:requests]
        yield Scenario(path.stem, topology_for(arrivals, models), arrivals)


def topology_for(arrivals: Sequence[Arrival], catalogue: Sequence[ModelSpec]) -> Topology:
    """Every requested region, with the same GPUs, which serve every requested model."""
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
