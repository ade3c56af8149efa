"""Runs every policy over every scenario and keeps what the report needs."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from beacon_router.scheduling import Policy
from beacon_router.scheduling.bounds import dispatches_until_served
from benchmarks.scheduling.baselines import Fifo, PerModelFifo, StrictPriority
from benchmarks.scheduling.figures import Figures, Foretold, figures, foretold
from benchmarks.scheduling.knowable import Knowable, knowable, sampled
from benchmarks.scheduling.scenarios import Scenario
from benchmarks.scheduling.simulator import PolicyUnderTest, Simulator
from benchmarks.scheduling.watched import Watched
from benchmarks.scheduling.workload import TIERS, told, untold

BEACON, FIFO = "Beacon", "FIFO"
SEED = 1
"""Of what callers say, and of what could be known."""
PLAYS = 20
"""Ways in which things may go on, of each arrival at which it is asked what could be known of its wait."""


@dataclass(frozen=True, slots=True)
class Told:
    """How Beacon did at the same arrivals, when callers said how large their requests are."""

    figures: Figures
    foretold: Foretold | None
    seen: dict[str, int]
    """As in `Found`."""


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
    told: Told


def simulate(scenarios: Iterable[Scenario], samples: int) -> list[Found]:
    found = []
    for scenario in scenarios:
        found.append(_found(scenario, samples))
        print(f"  {scenario.name}: {len(scenario.arrivals):,} requests", flush=True)
    return found


def _found(scenario: Scenario, samples: int) -> Found:
    topology, gpus = scenario.topology, len(scenario.topology.backends)
    silent = replace(scenario, arrivals=untold(scenario.arrivals))
    watched = Watched(topology)
    contenders: dict[str, PolicyUnderTest] = {
        FIFO: Fifo(topology),
        "strict priority": StrictPriority(topology),
        "FIFO per model": PerModelFifo(topology),
        BEACON: watched,
    }
    runs = {name: Simulator(topology, policy).run(silent.arrivals) for name, policy in contenders.items()}
    return Found(
        name=scenario.name,
        requests=len(scenario.arrivals),
        policies={name: figures(seen, gpus) for name, seen in runs.items()},
        foretold=foretold(runs[BEACON]),
        sample=foretold([runs[BEACON][number] for number in sampled(len(scenario.arrivals), samples)]),
        knowable=knowable(silent, samples, PLAYS, SEED),
        seen=_worst(watched),
        allowed={tier: dispatches_until_served(Policy(), rank) for rank, tier in enumerate(TIERS)},
        told=_told(scenario),
    )


def _told(scenario: Scenario) -> Told:
    topology = scenario.topology
    watched = Watched(topology)
    seen = Simulator(topology, watched).run(told(scenario.arrivals, SEED))
    return Told(figures(seen, len(topology.backends)), foretold(seen), _worst(watched))


def _worst(watched: Watched) -> dict[str, int]:
    return {TIERS[rank]: dispatches for rank, dispatches in sorted(watched.watch.worst.items())}
