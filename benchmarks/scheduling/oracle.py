"""How well waits can be foretold at all: by one who knows how long everything runs that is there.

At some arrivals the scheduler is copied and plays on by itself, with the true times of what runs and waits.
What nobody can know is who comes next: as in a rehearsal, the last arrivals come again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean, median

from beacon_router.core import Scheduler
from benchmarks.scheduling.scenarios import Scenario
from benchmarks.scheduling.simulator import Simulator
from benchmarks.scheduling.workload import Arrival

_PAST = 3 * 128
_FUTURES = 20
"""How many times the past may come again until the request starts."""


def oracle_errors(scenario: Scenario, samples: int) -> tuple[float, float] | None:
    """Median absolute error, of each wait and of their mean; None when nobody waited."""
    simulator = Simulator(scenario.topology, Scheduler(scenario.topology), foretell=False)
    every = max(1, len(scenario.arrivals) // samples)
    told: dict[str, float] = {}
    for number, arrival in enumerate(scenario.arrivals):
        name = simulator.arrive(arrival)
        if number % every == every - 1 and simulator.requests[name].started_s < 0:
            past = scenario.arrivals[max(0, number - _PAST) : number + 1]
            told[name] = _told(simulator, name, past)
    simulator.finish()
    waits = {name: simulator.requests[name].wait_s for name in told}
    if not told:
        return None
    errors = {name: abs(told[name] - wait_s) for name, wait_s in waits.items()}
    of_each = median(errors[name] / wait_s for name, wait_s in waits.items())
    return of_each, median(errors.values()) / fmean(waits.values())


def _told(simulator: Simulator, name: str, past: Sequence[Arrival]) -> float:
    twin = simulator.twin()
    for arrival in _again(past):
        twin.arrive(arrival)
        if twin.requests[name].started_s >= 0:
            break
    else:
        twin.finish()
    return twin.requests[name].wait_s


def _again(past: Sequence[Arrival]) -> Iterator[Arrival]:
    now = past[-1].arrival_s
    gap_s = (now - past[0].arrival_s) / max(1, len(past) - 1)
    for _ in range(_FUTURES):
        for arrival in past:
            now += gap_s
            yield replace(arrival, arrival_s=now)
