"""What a decision costs in CPU, and a waiting request in memory, however many wait."""

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from time import thread_time_ns

from beacon_router.core import (
    BackendSpec,
    ModelSpec,
    Outcome,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    Start,
    Topology,
)
from benchmarks.harness.rounds import shuffled_rounds

SIZES = (100, 1_000, 10_000, 100_000)
GPUS, MODELS, TIERS = 10, 50, 5
BATCH = 50
CALM_S, STARVING_S = 1e-6, 1.0
"""How far time goes on between two decisions: nobody is ever past the bound, or soon every tier is."""


class Bench:
    """A scheduler with so many waiting requests, over all models and tiers; as many come as are served."""

    def __init__(self, waiting: int, step_s: float, seed: int) -> None:
        models = tuple(ModelSpec(f"model-{number:02d}") for number in range(MODELS))
        names = frozenset(model.name for model in models)
        backends = tuple(BackendSpec(f"gpu-{number}", "US", names) for number in range(GPUS))
        self.scheduler = Scheduler(Topology((RegionSpec("US"),), backends, models))
        self._requests = _requests(seed)
        self._step_s = step_s
        self._now = 0.0
        self._running: list[RequestId] = []
        self.submit(waiting)
        self._note(self.scheduler.next(self._now))
        self.submit(GPUS)

    def submit(self, number: int) -> None:
        for _ in range(number):
            self.scheduler.submit(self._now, next(self._requests))

    def microseconds(self, decisions: int) -> float:
        """CPU per decision: a slot frees, and the scheduler says who gets it."""
        used = 0
        for _ in range(decisions // BATCH):
            self.submit(BATCH)
            before = thread_time_ns()
            self._decide(BATCH)
            used += thread_time_ns() - before
        return used / 1000 / (decisions // BATCH * BATCH)

    def _decide(self, decisions: int) -> None:
        scheduler, running = self.scheduler, self._running
        for turn in range(decisions):
            self._now += self._step_s
            scheduler.finished(self._now, running.pop(turn % GPUS), Outcome.COMPLETED, run_s=5.0)
            for decision in scheduler.next(self._now):
                running.append(decision.id)

    def _note(self, decisions: Sequence[object]) -> None:
        self._running += [decision.id for decision in decisions if isinstance(decision, Start)]


def decision_costs(rounds: int, decisions: int, seed: int) -> dict[str, list[dict[str, float]]]:
    """For calm and for overload, round by round, microseconds by number of waiting requests."""
    benches = {
        (kind, str(size)): Bench(size, step_s, seed)
        for kind, step_s in (("calm", CALM_S), ("starving", STARVING_S))
        for size in SIZES
    }
    names = [f"{kind} {size}" for kind, size in benches]
    found: dict[str, list[dict[str, float]]] = {"calm": [], "starving": []}
    for bench in benches.values():
        bench.microseconds(BATCH * GPUS)
    gc.collect()
    for order in shuffled_rounds(names, rounds, seed):
        for of_kind in found.values():
            of_kind.append({})
        for name in order:
            kind, size = name.split()
            found[kind][-1][size] = benches[kind, size].microseconds(decisions)
    return found


def bytes_per_waiting(waiting: int, seed: int) -> float:
    """All that the core holds for one, the request itself and its id included."""
    bench = Bench(GPUS, CALM_S, seed)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    bench.submit(waiting)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return grown / waiting


def _requests(seed: int) -> Iterator[Request]:
    chance = Random(seed)
    models = [f"model-{number:02d}" for number in range(MODELS)]
    for number in count():
        rank = chance.randrange(TIERS)
        yield Request(RequestId(f"req_{number:026d}"), chance.choice(models), "US", rank)
