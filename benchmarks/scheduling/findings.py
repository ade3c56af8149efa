"""Runs every policy over every scenario and keeps what the report needs."""

from collections.abc import Iterable
from dataclasses import dataclass

from beacon_router.core import Policy
from beacon_router.core.bounds import dispatches_until_served
from benchmarks.scheduling.baselines import Fifo, PerModelFifo, StrictPriority
from benchmarks.scheduling.figures import Figures, Foretold, figures, foretold
from benchmarks.scheduling.knowable import Knowable, knowable, sampled
from benchmarks.scheduling.scenarios import Scenario
from benchmarks.scheduling.simulator import PolicyUnderTest, Simulator
from benchmarks.scheduling.watched import Watched
from benchmarks.scheduling.workload import TIERS

BEACON, FIFO = "Beacon", "FIFO"
PLAYS = 20
"""Ways in which things may go on, of each arrival at which it is asked what could be known of its wait."""


@dataclass(frozen=True, slots=True)
class Found:
    """Of one scenario."""

    name: str
    requests: int
    policies: dict[str, Figures]
    foretold: Foretold | None
    sample: Foretold | None
    """The same, of those only of whom it was asked what could be known."""
    knowable: dict[str, Knowable]
    seen: dict[str, int]
    """By tier, the most dispatches that its head saw once it was past its bound."""
    allowed: dict[str, int]
    """By tier, what docs/scheduling.md promises."""


def simulate(scenarios: Iterable[Scenario], samples: int) -> list[Found]:
    found = []
    for scenario in scenarios:
        found.append(_found(scenario, samples))
        print(f"  {scenario.name}: {len(scenario.arrivals):,} requests", flush=True)
    return found


def _found(scenario: Scenario, samples: int) -> Found:
    topology, gpus = scenario.topology, len(scenario.topology.backends)
    watched = Watched(topology)
    contenders: dict[str, PolicyUnderTest] = {
        FIFO: Fifo(topology),
        "strict priority": StrictPriority(topology),
        "FIFO per model": PerModelFifo(topology),
        BEACON: watched,
    }
    runs = {name: Simulator(topology, policy).run(scenario.arrivals) for name, policy in contenders.items()}
    return Found(
        name=scenario.name,
        requests=len(scenario.arrivals),
        policies={name: figures(seen, gpus) for name, seen in runs.items()},
        foretold=foretold(runs[BEACON]),
        sample=foretold([runs[BEACON][number] for number in sampled(len(scenario.arrivals), samples)]),
        knowable=knowable(scenario, samples, PLAYS, seed=1),
        seen={TIERS[rank]: dispatches for rank, dispatches in sorted(watched.watch.worst.items())},
        allowed={tier: dispatches_until_served(Policy(), rank) for rank, tier in enumerate(TIERS)},
    )
