"""How much the two figures with the tightest goals differ between seeds, and how few loads are possible."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from beacon_router.scheduling import Scheduler
from benchmarks.scheduling.baselines import FewestLoads, Fifo, StrictPriority
from benchmarks.scheduling.figures import figures
from benchmarks.scheduling.scenarios import Scenario, all_scenarios
from benchmarks.scheduling.simulator import Simulator
from benchmarks.scheduling.workload import without_sizes

_LOADS = (("90%", 0.9, Scheduler), ("110%", 1.1, Scheduler), ("FIFO at 90%", 0.9, Fifo))


@dataclass(slots=True)
class SeedFigures:
    """One value for each seed."""

    lost: list[float] = field(default_factory=list)
    """GPU time lost to loads, of FIFO's;"""
    least_lost: list[float] = field(default_factory=list)
    """the same with the fewest loads."""
    least_start: list[float] = field(default_factory=list)
    """Mean time until a run begins with the fewest loads, of Beacon's."""
    top_p95: list[float] = field(default_factory=list)
    """Of strict priority's."""


def measure_seeds(traces: str | None, seeds: Sequence[int], requests: int) -> dict[str, SeedFigures]:
    """By arrivals and load."""
    found: dict[str, SeedFigures] = defaultdict(SeedFigures)
    for seed in seeds:
        for scenario in all_scenarios(traces, seed, requests):
            for name, load, policy in _LOADS:
                _add(found[f"{scenario.name}, {name}"], scenario.at_load(load, policy))
        print(f"  seed {seed}", flush=True)
    return dict(found)


def _add(found: SeedFigures, scenario: Scenario) -> None:
    topology, arrivals = scenario.topology, without_sizes(scenario.arrivals)
    ours, fifo, strict, fewest = (
        figures(Simulator(topology, make(topology)).run(arrivals), len(topology.backends))
        for make in (Scheduler, Fifo, StrictPriority, FewestLoads)
    )
    found.lost.append(ours.lost_s / fifo.lost_s)
    found.least_lost.append(fewest.lost_s / fifo.lost_s)
    found.least_start.append(fewest.start_s / ours.start_s)
    if strict.top_p95:
        found.top_p95.append(ours.top_p95 / strict.top_p95)
