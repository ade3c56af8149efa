"""What a decision costs in CPU, and a waiting request in memory, however many wait."""

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import cycle
from random import Random
from time import thread_time_ns
from typing import Final

from beacon_router.scheduling import (
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

SIZES = (100, 1_000, 10_000, 100_000)
GPUS, MODELS, TIERS = 10, 50, 5
FREE = 5
LOAD_S, RUN_S = 10.0, 0.001
"""So short a run that however many may stand aside for its end."""
BATCH = 50
CALM_S, STARVING_S = 1e-6, 1.0
"""How far time goes on between two decisions: nobody is ever past the bound, or soon every tier is."""


class JobRunner:
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

    def cost(self, decisions: int) -> float:
        """CPU microseconds per decision: a slot frees, and the scheduler says who gets it."""
        batches = decisions // BATCH
        return sum(self._batch_ns() for _ in range(batches)) / 1000 / (batches * BATCH)

    def _batch_ns(self) -> int:
        self.submit(BATCH)
        before = thread_time_ns()
        self._decide(BATCH)
        return thread_time_ns() - before

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


class AsideBench(JobRunner):
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

    def _batch_ns(self) -> int:
        return super()._batch_ns() // 2

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

    def _batch_ns(self) -> int:
        used = 0
        for _ in range(BATCH):
            JobRunner.submit(self, 1)
            before = thread_time_ns()
            started = self.scheduler.next(self._now)
            after = thread_time_ns()
            used += after - before - (thread_time_ns() - after)  # to ask for the time takes some, too
            if started:
                raise RuntimeError("somebody started who was to stand aside")
        return used


KINDS: Final[dict[str, tuple[type[JobRunner], float]]] = {
    "calm": (JobRunner, CALM_S),
    "starving": (JobRunner, STARVING_S),
    "aside": (AsideBench, 0.0),
    "aside, arrivals": (ArrivalBench, 0.0),
}


class Benches:
    """Every kind with every number of waiting requests, ready to be measured round by round."""

    def __init__(self, seed: int, sizes: Sequence[int] = SIZES) -> None:
        self._seed = seed
        self._benches = {
            (kind, size): bench(size, step_s, seed)
            for kind, (bench, step_s) in KINDS.items()
            for size in sizes
        }
        for prepared in self._benches.values():
            prepared.cost(BATCH * GPUS)

    def round(self, number: int, decisions: int) -> dict[str, dict[str, float]]:
        """By kind, CPU microseconds per decision by number of waiting requests."""
        order = list(self._benches)
        Random(self._seed + number).shuffle(order)
        found: dict[str, dict[str, float]] = {kind: {} for kind in KINDS}
        for kind, size in order:
            found[kind][str(size)] = self._benches[kind, size].cost(decisions)
        return found


def bytes_per_waiting(waiting: int, seed: int) -> float:
    """All that the core holds for one, the request itself and its id included."""
    bench = JobRunner(GPUS, CALM_S, seed)
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
