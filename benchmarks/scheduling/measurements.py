"""Runs the policies over a scenario at several loads."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from beacon_router.scheduling import Fairness, Policy, Scheduler, Topology
from benchmarks.scheduling.baselines import Fifo, PerModelFifo, StrictPriority
from benchmarks.scheduling.figures import (
    EtaAccuracy,
    Figures,
    dispatches_past_bound,
    eta_accuracy,
    figures,
)
from benchmarks.scheduling.scenarios import Scenario
from benchmarks.scheduling.simulator import PolicyUnderTest, RequestRecord, Simulator
from benchmarks.scheduling.workload import Arrival, with_sizes, without_sizes

BEACON, FIFO, STRICT = "Beacon", "FIFO", "strict priority"
BASELINES: Final[dict[str, Callable[[Topology], PolicyUnderTest]]] = {
    FIFO: Fifo,
    STRICT: StrictPriority,
    "FIFO per model": PerModelFifo,
}
LOADS: Final = (0.3, 0.6, 0.9, 1.1)
HIGH: Final = 0.9
WARM_WAITS: Final = (0.0, 1.0, 2.0, 5.0, 8.0)


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """Of one scenario at one load."""

    scenario: str
    load: str
    """`90 %`, or `FIFO at 90 %`."""
    requests: int
    policies: dict[str, Figures]
    by_max_loads: dict[float, float]
    """Mean seconds until the run begins, by the value of `warm_wait_max_loads`."""
    fifo_loads: int | None = None
    """Model loads with `fairness = "fifo"`,"""
    dispatches: dict[str, int] | None = None
    """the most dispatches past the starvation bound, by tier,"""
    eta: EtaAccuracy | None = None
    """the accuracy of estimates without"""
    eta_with_sizes: EtaAccuracy | None = None
    """and with sizes; all at the high load only."""


def measure(scenarios: Iterable[Scenario], loads: Sequence[float], seed: int) -> list[LoadFigures]:
    found = []
    for scenario in scenarios:
        for load in loads:
            found.append(_at_load(scenario.at_load(load, Scheduler), f"{load:.0%}", seed, high=load == HIGH))
            print(f"  {scenario.name} at {load:.0%}", flush=True)
        if HIGH in loads:
            found.append(_at_load(scenario.at_load(HIGH, Fifo), f"FIFO at {HIGH:.0%}", seed, high=False))
    return found


def _at_load(scenario: Scenario, load: str, seed: int, *, high: bool) -> LoadFigures:
    topology, gpus = scenario.topology, len(scenario.topology.backends)
    arrivals = without_sizes(scenario.arrivals)
    policies = {
        name: figures(Simulator(topology, make(topology)).run(arrivals), gpus)
        for name, make in BASELINES.items()
    }
    records = Simulator(topology, Scheduler(topology), estimate=high).run(arrivals)
    policies[BEACON] = figures(records, gpus)
    by_max_loads = {
        loads: figures(_run(topology, arrivals, Policy(warm_wait_max_loads=loads)), gpus).start_s
        for loads in WARM_WAITS
    }
    if not high:
        return LoadFigures(scenario.name, load, len(arrivals), policies, by_max_loads)
    with_fifo = _run(topology, arrivals, Policy(fairness=Fairness.FIFO))
    sized = Simulator(topology, Scheduler(topology), estimate=True).run(with_sizes(arrivals, seed))
    return LoadFigures(
        scenario.name,
        load,
        len(arrivals),
        policies,
        by_max_loads,
        fifo_loads=figures(with_fifo, gpus).loads,
        dispatches=dispatches_past_bound(records, Policy()),
        eta=eta_accuracy(records),
        eta_with_sizes=eta_accuracy(sized),
    )


def _run(topology: Topology, arrivals: Sequence[Arrival], policy: Policy) -> list[RequestRecord]:
    return Simulator(topology, Scheduler(topology, policy)).run(arrivals)
