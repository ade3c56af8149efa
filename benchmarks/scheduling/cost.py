"""What a decision costs in CPU, and a waiting request in memory, however many wait."""

import gc
import tracemalloc
from collections.abc import Iterator
from itertools import cycle
from random import Random
from time import thread_time_ns
from typing import Final

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
FREE = 5
LOAD_S, RUN_S = 10.0, 0.001
"""So short a run that however many may stand aside for its end."""
BATCH = 50
CALM_S, STARVING_S = 1e-6, 1.0
"""How far time goes on between two decisions: nobody is ever past the bound, or soon every tier is."""


class Bench:
    """A scheduler with so many waiting requests, over all models and tiers; as many come as are served."""

    def __init__(self, waiting: int, step_s: float, seed: int, gpus: int = GPUS) -> None:
        models = tuple(ModelSpec(name, expected_load_s=LOAD_S, expected_run_s=RUN_S) for name in _models())
        names = frozenset(_models())
        backends = tuple(BackendSpec(f"gpu-{number}", "US", names) for number in range(gpus))
        self.scheduler = Scheduler(Topology((RegionSpec("US"),), backends, models))
        self._requests = _requests(Random(seed), self._asked_for(Random(seed)))
        self._step_s = step_s
        self._now = 0.0
        self._running: list[RequestId] = []
        self._prepare()
        self.submit(waiting)
        self._next()
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

    def _prepare(self) -> None:
        """Before anybody waits."""

    def _asked_for(self, chance: Random) -> Iterator[str]:
        """The models of those who come."""
        while True:
            yield chance.choice(_models())

    def _decide(self, decisions: int) -> None:
        scheduler, running, completed = self.scheduler, self._running, Outcome.COMPLETED
        for _ in range(decisions):
            self._now += self._step_s
            scheduler.finished(self._now, running.pop(0), completed, run_s=RUN_S)
            for decision in scheduler.next(self._now):
                running.append(decision.id)

    def _next(self) -> None:
        self._running += [
            decision.id for decision in self.scheduler.next(self._now) if isinstance(decision, Start)
        ]


class AsideBench(Bench):
    """Every model is held by a GPU that is busy, others are free: everybody stands aside for the first.

    So a slot that frees takes two decisions: who gets it, and that nobody takes one of the others.
    """

    def __init__(self, waiting: int, step_s: float, seed: int) -> None:
        super().__init__(waiting, step_s, seed, gpus=MODELS + FREE)
        if len(self._running) != MODELS:
            raise RuntimeError(f"{len(self._running)} run: not everybody stands aside")

    def submit(self, number: int) -> None:
        for _ in range(number):
            super().submit(1)
            self._next()

    def microseconds(self, decisions: int) -> float:
        return super().microseconds(decisions) / 2

    def _prepare(self) -> None:
        for number, model in enumerate(_models()):
            self.scheduler.model_loaded(self._now, f"gpu-{number}", model)
            self.scheduler.submit(self._now, Request(RequestId(model), model, "US", 0))
        self._next()

    def _asked_for(self, chance: Random) -> Iterator[str]:
        """Of each as many as are served, so that no GPU runs out of work."""
        del chance
        return cycle(_models())


class ArrivalBench(AsideBench):
    """The same; here a decision is that somebody who has come does not start."""

    def microseconds(self, decisions: int) -> float:
        used = 0
        for _ in range(decisions):
            Bench.submit(self, 1)
            before = thread_time_ns()
            started = self.scheduler.next(self._now)
            used += thread_time_ns() - before
            if started:
                raise RuntimeError("somebody started who was to stand aside")
        return used / 1000 / decisions


KINDS: Final[dict[str, tuple[type[Bench], float]]] = {
    "calm": (Bench, CALM_S),
    "starving": (Bench, STARVING_S),
    "aside": (AsideBench, 0.0),
    "aside, arrivals": (ArrivalBench, 0.0),
}


def decision_costs(rounds: int, decisions: int, seed: int) -> dict[str, list[dict[str, float]]]:
    """By kind, round by round, microseconds by number of waiting requests."""
    benches = {
        (kind, str(size)): bench(size, step_s, seed)
        for kind, (bench, step_s) in KINDS.items()
        for size in SIZES
    }
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for bench in benches.values():
        bench.microseconds(BATCH * GPUS)
    gc.collect()
    names = [f"{kind}: {size}" for kind, size in benches]
    for order in shuffled_rounds(names, rounds, seed):
        for of_kind in found.values():
            of_kind.append({})
        for name in order:
            kind, size = name.split(": ")
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


def _requests(chance: Random, models: Iterator[str]) -> Iterator[Request]:
    for number, model in enumerate(models):
        yield Request(RequestId(f"req_{number:026d}"), model, "US", chance.randrange(TIERS))


def _models() -> list[str]:
    return [f"model-{number:02d}" for number in range(MODELS)]
