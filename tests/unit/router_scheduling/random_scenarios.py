"""Random but repeatable scenarios: all kinds of facts, in waves, so that queues fill and drain."""

from collections.abc import Callable
from random import Random

from beacon_router.scheduling import Health, Outcome, RequestId
from tests.unit.router_scheduling.harness import SMALL_TIERS, SchedulerHarness
from tests.unit.router_scheduling.reference_state import Queue

SIZES = (None, 1.0, 2.0, 5.0)


class RandomScenario:
    def __init__(self, harness: SchedulerHarness, seed: int) -> None:
        self._harness = harness
        self._chance = Random(seed)
        topology = harness.topology
        self._models = [model.name for model in topology.models]
        self._regions = [region.name for region in topology.regions]
        self._limits = sorted(topology.limits)
        self._acts: dict[Callable[[], None], int] = {
            self._submit: 10,
            self._finish: 10,
            self._time_passes: 6,
            self._cancel: 1,
            self._fail: 2,
            self._pay: 1,
            self._breaker: 1,
            self._share: 1,
            self._loaded: 1,
        }

    def run(self, steps: int) -> None:
        for step in range(steps):
            busy = (step // 30) % 3 != 2
            self._acts[self._submit] = 12 if busy else 3
            act = self._chance.choices(list(self._acts), list(self._acts.values()))[0]
            act()
            self._harness.next()
        self._harness.drain()

    def _submit(self) -> None:
        chance = self._chance
        for _ in range(chance.choice([1, 1, 1, 2, 6])):
            self._harness.submit(
                chance.choice(self._models),
                chance.choice(self._regions),
                chance.randrange(3),
                pinned=chance.random() < 0.3,
                front=chance.random() < 0.08,
                wait_s=chance.choice([None] * 8 + [1.0, 6.0]),
                size=chance.choice(SIZES),
                user=(user := chance.choice("xyz")),
                weight=2.0 if user == "z" else 1.0,
            )

    def _finish(self) -> None:
        if self._harness.running:
            request = self._chance.choice(self._harness.running)
            load_s, run_s = self._chance.choice([None, 1.5]), self._chance.choice([None, 0.5, 4.0])
            self._harness.finish(request, load_s=load_s, run_s=self._sized(request, run_s))

    def _sized(self, request: RequestId, run_s: float | None) -> float | None:
        """Most run times follow the size, others do not."""
        size = self._harness.checker.state.running[request].request.size
        return run_s if size is None or self._chance.random() < 0.2 else size * self._chance.uniform(0.6, 1.2)

    def _time_passes(self) -> None:
        self._harness.pass_time(self._chance.choice([0.1, 0.5, 1.0, 3.0, 20.0]))

    def _cancel(self) -> None:
        if self._harness.waiting and self._chance.random() < 0.7:
            self._harness.cancel(self._chance.choice(self._harness.waiting))
        elif self._harness.running:
            self._harness.finish(self._chance.choice(self._harness.running), Outcome.CANCELLED)

    def _fail(self) -> None:
        if self._harness.running:
            after_s = self._chance.choice([0.0, 1.0])
            self._harness.fail_and_retry(self._chance.choice(self._harness.running), after_s=after_s)

    def _pay(self) -> None:
        if self._harness.waiting:
            self._harness.to_front(self._chance.choice(self._harness.waiting))

    def _breaker(self) -> None:
        backend = self._chance.choice(self._harness.topology.backends).name
        self._harness.set_health(backend, self._chance.choice([Health.CLOSED, *Health]))

    def _share(self) -> None:
        if self._limits:
            limit = self._chance.choice(self._limits)
            self._harness.set_capacity(limit, self._chance.randint(0, self._harness.topology.limits[limit]))

    def _loaded(self) -> None:
        backend = self._chance.choice(self._harness.topology.backends)
        model = self._chance.choice(sorted(backend.models))
        if self._chance.random() < 0.3:
            self._harness.model_lost(backend.name, self._chance.choice([None, model]))
        else:
            self._harness.model_loaded(backend.name, model)


def flood(harness: SchedulerHarness, seed: int, dispatches: int) -> None:
    """Every tier always has a backlog past its bound, and more is paid to the front than can run."""
    chance = Random(seed)
    models = [model.name for model in harness.topology.models]
    region = harness.topology.regions[0].name
    ranks = range(len(SMALL_TIERS))

    def fill() -> None:
        waiting = [harness.checker.state.waiting[request] for request in harness.waiting]
        for rank in ranks:
            have = sum(one.queue is Queue.MAIN and one.request.rank == rank for one in waiting)
            for _ in range(8 - have):
                harness.submit(chance.choices(models, [6, 3, 1])[0], region, rank, user=chance.choice("xyz"))
        if sum(one.queue is Queue.FRONT for one in waiting) < 3:
            harness.submit(chance.choice(models), region, 2, front=True)

    fill()
    harness.pass_time(20.0)
    for _ in range(dispatches):
        fill()
        harness.finish(chance.choice(harness.running))
        harness.pass_time(0.5)
