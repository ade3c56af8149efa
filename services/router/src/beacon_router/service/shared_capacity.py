"""Limits shared by router replicas: the scheduler may use as much of each as this router has leased."""

import asyncio
from collections.abc import Callable
from functools import cache, partial
from math import inf

from beacon_lifecycle import Clock, TaskSet
from beacon_router.limits.lease import CapacityLease
from beacon_router.limits.port import SharedLimit, SlotLimiter
from beacon_router.scheduling import LimitName, Scheduler, Topology
from beacon_router.service.inference import Run
from beacon_router.service.outcome import RunOutcome


class SharedCapacity:
    """Counts the use of each limit by the events of runs. `ready` is set when a lease has changed; `requeue`
    aborts a run whose share of a limit is lost."""

    name = "shared-capacity"

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
        self._demand: dict[LimitName, int] | None = None
        """As the leases have it; None: they do not have it yet."""
        self._limiter = limiter
        self._limits_of = _limits_of(topology)
        self._leases = {name: self._lease(name, cap) for name, cap in topology.limits.items()}
        self._runs: dict[LimitName, dict[Run, None]] = {name: {} for name in self._leases}
        """The runs under each limit, the newest last."""
        self._leases_of: dict[Run, tuple[CapacityLease, ...]] = {}
        self._valid_until = -inf
        """No lease ends before."""
        self._tasks = TaskSet(self.name)
        self._watches: dict[CapacityLease, asyncio.Task[None]] = {}
        for name in self._leases:
            scheduler.set_capacity(name, 0)

    # The service contract

    async def start(self) -> None:
        for lease in self._leases.values():
            await self._begin(lease)

    async def wait(self) -> None:
        await self._tasks.failed.wait()
        if self._tasks.failure is not None:
            raise self._tasks.failure

    async def stop(self) -> None:
        await self._tasks.close()
        await asyncio.gather(*(lease.stop() for lease in self._leases.values()))

    def adopt(self, topology: Topology) -> None:
        """Go on with other limits; the scheduler has adopted the topology before. A run counts here under the
        limits that it started with: it has no token of a new one."""
        self._limits_of = _limits_of(topology)
        for name in self._leases.keys() - topology.limits.keys():
            lease = self._leases.pop(name)
            del self._runs[name]
            self._tasks.spawn(f"end {name}", self._end(lease))
        for name, cap in topology.limits.items():
            if name in self._leases:
                self._leases[name].resize(cap)
            else:
                self._leases[name], self._runs[name] = self._lease(name, cap), {}
                self._tasks.spawn(f"begin {name}", self._begin(self._leases[name]))
            self._scheduler.set_capacity(name, self._leases[name].capacity)
        self._demand = None
        self._valid_until = -inf

    # Events of runs

    def run_started(self, run: Run) -> None:
        names = self._limits_of(run.start.backend, run.inference.spec.model)
        self._leases_of[run] = leases = tuple(self._leases[name] for name in names)
        for name, lease in zip(names, leases, strict=True):
            lease.acquired()
            self._runs[name][run] = None

    def run_ended(self, run: Run, outcome: RunOutcome) -> None:  # noqa: ARG002
        for lease in self._leases_of.pop(run, ()):
            name, capacity = LimitName(lease.limit.name), lease.released()
            if self._leases.get(name) is lease:
                del self._runs[name][run]
                self._scheduler.set_capacity(name, capacity)

    def before_dispatch(self) -> None:
        """Nothing starts on a lease that ended while the process was stopped."""
        if self._clock.now() >= self._valid_until:
            leases = list(self._leases.values())
            for lease in leases:
                lease.report()
            self._valid_until = min((lease.ends_at for lease in leases), default=inf)

    def dispatched(self) -> None:
        """Request as many slots of each limit as the waiting work could use next to what runs."""
        demand = self._scheduler.demand() if self._scheduler.waiting() else {}
        if demand != self._demand:
            for name, lease in self._leases.items():
                lease.set_demand(demand.get(name, 0))
            self._demand = demand

    def _capacity_changed(self, name: LimitName, capacity: int) -> None:
        if name in self._leases:
            self._scheduler.set_capacity(name, capacity)
            self._ready.set()

    def _lease(self, name: LimitName, cap: int) -> CapacityLease:
        return CapacityLease(
            SharedLimit(name, cap),
            self._limiter,
            self._clock,
            partial(self._capacity_changed, name),
            partial(self._abort, name),
        )

    async def _begin(self, lease: CapacityLease) -> None:
        await lease.start()
        self._watches[lease] = self._tasks.spawn(f"watch {lease.name}", lease.wait())

    async def _end(self, lease: CapacityLease) -> None:
        """Its tokens are released."""
        watch = self._watches.pop(lease, None)
        if watch is not None:
            watch.cancel()
        await lease.stop()

    def _abort(self, name: LimitName, count: int) -> None:
        """The newest runs have lost the least work."""
        for run in list(self._runs.get(name, ()))[-count:]:
            self._requeue(run)
        self._ready.set()


def _limits_of(topology: Topology) -> Callable[[str, str], tuple[LimitName, ...]]:
    """Of runs by backend and model; a run that is continued may be of a model that was removed."""
    specs = {backend.name: backend for backend in topology.backends}
    return cache(lambda backend, model: topology.limits_of(specs[backend], model))
