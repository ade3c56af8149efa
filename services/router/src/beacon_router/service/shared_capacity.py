"""Caps that replicas share: the scheduler may use as many tokens as this router holds of each."""

from collections.abc import Callable, Mapping, Sequence

from beacon_lifecycle import Clock
from beacon_router.limits.port import Limit, SlotLimiter
from beacon_router.limits.share import LimitShare
from beacon_router.scheduling import LimitName, Scheduler, Topology, model_limit
from beacon_router.service.inference import Inference, Run
from beacon_router.service.outcome import RunEnd
from beacon_router.service.run_controller import Engine


class SharedCapacity:
    """An observer of the engine: it counts what each limit's tokens are used for."""

    def __init__(
        self, topology: Topology, limiter: SlotLimiter, *, scheduler: Scheduler, clock: Clock
    ) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._engine: Engine | None = None
        self._limits_of = _limit_names(topology)
        self._shares = {
            name: LimitShare(Limit(name, cap), limiter, clock, self._changer(name))
            for name, cap in topology.limits.items()
        }
        for name in self._shares:
            scheduler.set_capacity(clock.now(), name, 0)

    @property
    def services(self) -> Sequence[LimitShare]:
        return list(self._shares.values())

    def join(self, engine: Engine) -> None:
        self._engine = engine
        engine.after_each_pump(self.ask)

    def ask(self) -> None:
        """Tell each share how many tokens there is work for."""
        for name, demand in self._scheduler.demand().items():
            self._shares[name].want(demand)

    def started(self, run: Run) -> None:
        for name in self._names(run):
            self._shares[name].started()

    def run_ended(self, run: Run, end: RunEnd) -> None:  # noqa: ARG002 - however it ended
        for name in self._names(run):
            self._scheduler.set_capacity(self._clock.now(), name, self._shares[name].ended())

    def ended(self, inference: Inference) -> None:
        """Only runs use tokens."""

    def _names(self, run: Run) -> tuple[LimitName, ...]:
        return self._limits_of.get((run.start.backend, run.inference.ask.model), ())

    def _changer(self, name: LimitName) -> Callable[[int], None]:
        def changed(capacity: int) -> None:
            self._scheduler.set_capacity(self._clock.now(), name, capacity)
            if self._engine is not None:
                self._engine.pump()

        return changed


def _limit_names(topology: Topology) -> Mapping[tuple[str, str], tuple[LimitName, ...]]:
    """The limits that a run of this model on this backend counts under."""
    limited = {model.name for model in topology.models if model.limit is not None}
    names: dict[tuple[str, str], tuple[LimitName, ...]] = {}
    for backend in topology.backends:
        for model in backend.models:
            own = (model_limit(model),) if model in limited else ()
            names[backend.name, model] = (*backend.limits, *own)
    return names
