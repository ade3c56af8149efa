"""How well waits can be foretold at all, by what is known.

At some arrivals the simulation is copied, and its copies play on: each is one way in which things can go on.
What is known is the same in all of them; what is not is drawn from how it is spread. Where the waits in them
differ, nobody who knows no more can foretell which it will be: an estimate is near some of them at best.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from statistics import fmean, median
from typing import Final, NamedTuple

from beacon_router.scheduling import Scheduler
from benchmarks.scheduling.scenarios import Scenario
from benchmarks.scheduling.simulator import Simulator
from benchmarks.scheduling.workload import Arrival

NEAR: Final = 0.2
"""The goal: so far from the wait, as a share of it."""
_PAST: Final = 3 * 128
"""Those who come next are drawn from so many who came last, at the pace at which they came."""
_FUTURES: Final = 20
"""How many times as many may come until the request starts."""


class Known(NamedTuple):
    run_times: bool
    arrivals: bool


KNOWN: Final = {
    "how both are spread": Known(run_times=False, arrivals=False),
    "who comes": Known(run_times=False, arrivals=True),
    "run times": Known(run_times=True, arrivals=False),
}


@dataclass(frozen=True, slots=True)
class Knowable:
    error: float
    """The median error of each wait, where the median of the copies is told."""
    near: float
    """To how large a share of the waits an estimate can be near; under a half, the median error is larger."""


def knowable(scenario: Scenario, samples: int, plays: int, seed: int) -> dict[str, Knowable]:
    """By what is known; nothing when nobody waited."""
    forecaster = _Forecaster(scenario, plays, Random(seed))
    simulator = Simulator(scenario.topology, Scheduler(scenario.topology), foretell=False)
    chosen = sampled(len(scenario.arrivals), samples)
    told: dict[str, dict[str, list[float]]] = {}
    for number, arrival in enumerate(scenario.arrivals):
        name = simulator.arrive(arrival)
        if number in chosen and simulator.requests[name].started_s < 0:
            told[name] = {
                label: forecaster.waits(simulator, number, name, known) for label, known in KNOWN.items()
            }
    simulator.finish()
    waits = {name: simulator.requests[name].wait_s for name in told}
    return {label: _compared(waits, {name: told[name][label] for name in told}) for label in KNOWN if told}


def sampled(arrivals: int, samples: int) -> range:
    """About so many of their numbers, evenly spread."""
    every = max(1, arrivals // samples)
    return range(every - 1, arrivals, every)


def share_near(waits: Sequence[float]) -> float:
    """The share of these to which the best of all estimates is near."""
    ordered = sorted(waits)
    ends = (bisect_right(ordered, wait_s * (1 + NEAR) / (1 - NEAR)) for wait_s in ordered)
    return max(end - begin for begin, end in enumerate(ends)) / len(ordered)


def _compared(waits: dict[str, float], told: dict[str, list[float]]) -> Knowable:
    errors = (abs(median(told[name]) - wait_s) / wait_s for name, wait_s in waits.items())
    return Knowable(error=median(errors), near=fmean(share_near(each) for each in told.values()))


class _Forecaster:
    def __init__(self, scenario: Scenario, plays: int, chance: Random) -> None:
        self._arrivals = scenario.arrivals
        self._plays = plays
        self._chance = chance
        self._runs: dict[str, list[float]] = defaultdict(list)
        """By model, how long its runs take, sorted."""
        for arrival in sorted(scenario.arrivals, key=lambda arrival: arrival.run_s):
            self._runs[arrival.model].append(arrival.run_s)

    def waits(self, simulator: Simulator, number: int, name: str, known: Known) -> list[float]:
        """What this request, the arrival of that number, waits in each copy."""
        return [self._play(twin, number, name, known) for twin in islice(simulator.twins(), self._plays)]

    def _play(self, twin: Simulator, number: int, name: str, known: Known) -> float:
        coming = iter(self._arrivals[number + 1 :]) if known.arrivals else self._others_like(number)
        if not known.run_times:
            twin.redraw(self._arrivals[number].arrival_s, self._run_s)
            coming = (replace(arrival, run_s=self._run_s(arrival.model, 0.0)) for arrival in coming)
        for arrival in coming:
            twin.arrive(arrival)
            if twin.requests[name].started_s >= 0:
                break
        else:
            twin.finish()
        return twin.requests[name].wait_s

    def _run_s(self, model: str, age_s: float) -> float:
        """Drawn from the runs of the model that take longer than that; none does: it ends now."""
        runs = self._runs[model]
        longer = bisect_right(runs, age_s)
        return runs[self._chance.randrange(longer, len(runs))] if longer < len(runs) else age_s

    def _others_like(self, number: int) -> Iterator[Arrival]:
        past = self._arrivals[max(0, number - _PAST) : number + 1]
        now = past[-1].arrival_s
        gap_s = max(1e-9, (now - past[0].arrival_s) / len(past))
        for _ in range(_FUTURES * _PAST):
            now += self._chance.expovariate(1 / gap_s)
            yield replace(self._chance.choice(past), arrival_s=now)
