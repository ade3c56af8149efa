"""Random but repeatable stories for a rig: many kinds of facts, in waves, so that queues fill and drain."""

from collections.abc import Callable
from random import Random

from beacon_router.scheduling import Health, Outcome, RequestId
from benchmarks.scheduling.world import Queue
from tests.unit.router_core.rig import SMALL_TIERS, Rig

SIZES = (None, 1.0, 2.0, 5.0)


class Story:
    def __init__(self, rig: Rig, seed: int) -> None:
        self._rig = rig
        self._chance = Random(seed)
        topology = rig.topology
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

    def tell(self, steps: int) -> None:
        for step in range(steps):
            busy = (step // 30) % 3 != 2
            self._acts[self._submit] = 12 if busy else 3
            act = self._chance.choices(list(self._acts), list(self._acts.values()))[0]
            act()
            self._rig.next()
        self._rig.drain()

    def _submit(self) -> None:
        chance = self._chance
        for _ in range(chance.choice([1, 1, 1, 2, 6])):
            self._rig.submit(
                chance.choice(self._models),
                chance.choice(self._regions),
                chance.randrange(3),
                pinned=chance.random() < 0.3,
                front=chance.random() < 0.08,
                patience_s=chance.choice([None] * 8 + [1.0, 6.0]),
                size=chance.choice(SIZES),
            )

    def _finish(self) -> None:
        if self._rig.running:
            request = self._chance.choice(self._rig.running)
            load_s, run_s = self._chance.choice([None, 1.5]), self._chance.choice([None, 0.5, 4.0])
            self._rig.finish(request, load_s=load_s, run_s=self._sized(request, run_s))

    def _sized(self, request: RequestId, run_s: float | None) -> float | None:
        """Most runs take about as long as their size says, others whatever they do."""
        size = self._rig.watch.world.running[request].request.size
        return run_s if size is None or self._chance.random() < 0.2 else size * self._chance.uniform(0.6, 1.2)

    def _time_passes(self) -> None:
        self._rig.pass_time(self._chance.choice([0.1, 0.5, 1.0, 3.0]))

    def _cancel(self) -> None:
        if self._rig.waiting and self._chance.random() < 0.7:
            self._rig.cancel(self._chance.choice(self._rig.waiting))
        elif self._rig.running:
            self._rig.finish(self._chance.choice(self._rig.running), Outcome.CANCELLED)

    def _fail(self) -> None:
        if self._rig.running:
            after_s = self._chance.choice([0.0, 1.0])
            self._rig.fail_and_retry(self._chance.choice(self._rig.running), after_s=after_s)

    def _pay(self) -> None:
        if self._rig.waiting:
            self._rig.to_front(self._chance.choice(self._rig.waiting))

    def _breaker(self) -> None:
        backend = self._chance.choice(self._rig.topology.backends).name
        self._rig.set_health(backend, self._chance.choice([Health.CLOSED, *Health]))

    def _share(self) -> None:
        if self._limits:
            limit = self._chance.choice(self._limits)
            self._rig.set_capacity(limit, self._chance.randint(0, self._rig.topology.limits[limit]))

    def _loaded(self) -> None:
        backend = self._chance.choice(self._rig.topology.backends)
        model = self._chance.choice(sorted(backend.models))
        if self._chance.random() < 0.3:
            self._rig.model_lost(backend.name, self._chance.choice([None, model]))
        else:
            self._rig.model_loaded(backend.name, model)


def flood(rig: Rig, seed: int, dispatches: int) -> None:
    """Every tier always has a backlog past its bound, and more is paid to the front than can run."""
    chance = Random(seed)
    models = [model.name for model in rig.topology.models]
    region = rig.topology.regions[0].name
    ranks = range(len(SMALL_TIERS))

    def fill() -> None:
        waiting = [rig.watch.world.waiting[request] for request in rig.waiting]
        for rank in ranks:
            have = sum(one.queue is Queue.MAIN and one.request.rank == rank for one in waiting)
            for _ in range(8 - have):
                rig.submit(chance.choices(models, [6, 3, 1])[0], region, rank)
        if sum(one.queue is Queue.FRONT for one in waiting) < 3:
            rig.submit(chance.choice(models), region, 2, front=True)

    fill()
    rig.pass_time(20.0)
    for _ in range(dispatches):
        fill()
        rig.finish(chance.choice(rig.running))
        rig.pass_time(0.5)
