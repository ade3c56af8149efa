"""Limits shared by router replicas: the scheduler may use as much of each as this router has leased."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from beacon_lifecycle import Clock
from beacon_router.limits.lease import CapacityLease
from beacon_router.limits.port import SharedLimit, SlotLimiter
from beacon_router.scheduling import LimitName, Scheduler, Topology
from beacon_router.service.inference import Run
from beacon_router.service.outcome import RunOutcome


class SharedCapacity:
    """Counts the use of each limit by the events of runs. `ready` is set when a lease has changed; `requeue`
    aborts a run whose share of a limit is lost."""

    def __init__(
        self,
        topology: Topology,
        limiter: SlotLimiter,
        *,
        scheduler: Scheduler,
        clock: Clock,
        ready: asyncio.Event,
        requeue: Callable[[Run], None],
    ) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._ready = ready
        self._requeue = requeue
        self._demand: dict[LimitName, int] = {}
        self._limits_of = {
            (backend.name, model): topology.limits_of(backend, model)
            for backend in topology.backends
            for model in backend.models
        }
        self._leases = {
            name: CapacityLease(
                SharedLimit(name, cap),
                limiter,
                clock,
                partial(self._capacity_changed, name),
                partial(self._abort, name),
            )
            for name, cap in topology.limits.items()
        }
        self._runs: dict[LimitName, dict[Run, None]] = {name: {} for name in self._leases}
        """The runs under each limit, the newest last."""
        self._valid_until = -inf
        """No lease ends before."""
        for name in self._leases:
            scheduler.set_capacity(name, 0)

    @property
    def services(self) -> Sequence[CapacityLease]:
        return list(self._leases.values())

    def run_started(self, run: Run) -> None:
        for name in self._limits_of[run.start.backend, run.inference.spec.model]:
            self._leases[name].acquired()
            self._runs[name][run] = None

    def run_ended(self, run: Run, outcome: RunOutcome) -> None:  # noqa: ARG002
        for name in self._limits_of[run.start.backend, run.inference.spec.model]:
            self._runs[name].pop(run, None)
            self._scheduler.set_capacity(name, self._leases[name].released())

    def before_dispatch(self) -> None:
        """Nothing starts on a lease that ended while the process was stopped."""
        if self._clock.now() >= self._valid_until:
            for lease in self.services:
                lease.report()
            self._valid_until = min((lease.ends_at for lease in self.services), default=inf)

    def dispatched(self) -> None:
        """Request as many slots of each limit as there is work for."""
        demand = self._scheduler.demand()
        for name, tokens in demand.items():
            if tokens != self._demand.get(name):
                self._leases[name].set_demand(tokens)
        self._demand = demand

    def _capacity_changed(self, name: LimitName, capacity: int) -> None:
        self._scheduler.set_capacity(name, capacity)
        self._ready.set()

    def _abort(self, name: LimitName, count: int) -> None:
        """The newest runs have lost the least work."""
        for run in list(self._runs[name])[-count:]:
            self._requeue(run)
        self._ready.set()
