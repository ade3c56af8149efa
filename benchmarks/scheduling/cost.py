"""CPU time of a decision and memory of a waiting request, by the number of waiting requests."""

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random
from time import thread_time_ns
from typing import Final

from beacon_lifecycle import tune_gc
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
from benchmarks.harness.statistics import Round

SIZES: Final = (100, 1_000, 10_000, 100_000)
GPUS, MODELS, TIERS, USERS = 10, 50, 5, 1_000
IDLE_GPUS = 5
LOAD_S, RUN_S = 10.0, 0.001
"""Runs so short that any number of requests waits for a warm backend."""
BATCH = 50
YOUNG_OBJECTS = 5_000
"""The garbage collector's setting in the router."""
CALM_STEP_S, STARVING_STEP_S = 1e-6, 1.0
"""Time between two decisions: no request is ever past its bound, or soon one of every tier is."""


@dataclass(frozen=True, slots=True)
class Costs:
    decisions: dict[str, list[Round]]
    """By kind, per round, CPU microseconds per decision by number of waiting requests."""
    bytes_each: float
    """Of a waiting request."""


def measure_costs(rounds: int, decisions: int, seed: int) -> Costs:
    bytes_each = bytes_per_waiting(SIZES[-1], seed)
    benches = Benches(seed)
    tune_gc(young=YOUNG_OBJECTS)
    found = [benches.round(number, decisions) for number in range(rounds)]
    return Costs({kind: [each[kind] for each in found] for kind in KINDS}, bytes_each)


class DecisionBench:
    """A scheduler with so many waiting requests of 1,000 users, over all models and tiers; as many arrive as
    start."""

    def __init__(self, waiting: int, step_s: float, seed: int, gpus: int = GPUS) -> None:
        models = tuple(ModelSpec(name, expected_load_s=LOAD_S, expected_run_s=RUN_S) for name in _models())
        names = frozenset(_models())
        backends = tuple(BackendSpec(f"gpu-{number}", "US", names) for number in range(gpus))
        self.scheduler = Scheduler(Topology((RegionSpec("US"),), backends, models))
        self._requests = _requests(Random(seed), self._requested_models(Random(seed)))
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
        """CPU microseconds per decision: a slot frees, and the scheduler chooses what it starts."""
        batches = decisions // BATCH
        return sum(self._batch_ns() for _ in range(batches)) / 1000 / (batches * BATCH)

    def _batch_ns(self) -> int:
        self.submit(BATCH)
        before = thread_time_ns()
        self._decide(BATCH)
        return thread_time_ns() - before

    def _prepare(self) -> None:
        """Before the first arrival."""

    def _requested_models(self, random: Random) -> Iterator[str]:
        while True:
            yield random.choice(_models())

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


class WarmWaitBench(DecisionBench):
    """Every model is loaded on a busy GPU, other GPUs are idle: all requests wait for the warm ones.

    A slot that frees takes two decisions: what it starts, and that the idle ones start nothing.
    """

    def __init__(self, waiting: int, step_s: float, seed: int) -> None:
        super().__init__(waiting, step_s, seed, gpus=MODELS + IDLE_GPUS)
        if len(self._running) != MODELS:
            raise RuntimeError(f"{len(self._running)} run: not all requests wait for a warm GPU")

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

    def _requested_models(self, random: Random) -> Iterator[str]:
        """As many requests of each model as start, so that every GPU has work."""
        del random
        return cycle(_models())


KINDS: Final[dict[str, tuple[type[DecisionBench], float]]] = {
    "no tier starves": (DecisionBench, CALM_STEP_S),
    "all tiers starve": (DecisionBench, STARVING_STEP_S),
    "warm waiting": (WarmWaitBench, 0.0),
}


class Benches:
    """Every kind with every number of waiting requests, measured in shuffled rounds."""

    def __init__(self, seed: int, sizes: Sequence[int] = SIZES) -> None:
        self._seed = seed
        self._benches = {
            (kind, size): bench(size, step_s, seed)
            for kind, (bench, step_s) in KINDS.items()
            for size in sizes
        }
        for prepared in self._benches.values():
            prepared.cost(BATCH * GPUS)

    def round(self, number: int, decisions: int) -> dict[str, Round]:
        """By kind, CPU microseconds per decision by number of waiting requests."""
        order = list(self._benches)
        Random(self._seed + number).shuffle(order)
        found: dict[str, dict[str, float]] = {kind: {} for kind in KINDS}
        for kind, size in order:
            found[kind][str(size)] = self._benches[kind, size].cost(decisions)
        return dict(found)


def bytes_per_waiting(waiting: int, seed: int) -> float:
    """All memory of the scheduler for one, the request itself and its id included."""
    bench = DecisionBench(GPUS, CALM_STEP_S, seed)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    bench.submit(waiting)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return grown / waiting


def _requests(random: Random, models: Iterator[str]) -> Iterator[Request]:
    users = [f"user_{number:026d}" for number in range(USERS)]
    for number, model in enumerate(models):
        user = random.randrange(USERS)
        yield Request(RequestId(f"req_{number:026d}"), model, "US", user % TIERS, user=users[user])


def _models() -> list[str]:
    return [f"model-{number:02d}" for number in range(MODELS)]
