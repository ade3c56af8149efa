"""The dispatching parts of one router, wired together, as a service."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from beacon_lifecycle import Clock
from beacon_router.backends import Backend
from beacon_router.scheduling import Scheduler, Topology
from beacon_router.service.admission import Admission, AdmissionRules
from beacon_router.service.breakers import BreakerRules, Breakers
from beacon_router.service.dispatcher import Dispatcher
from beacon_router.service.inference_store import Held, HeldBounds
from beacon_router.service.observer import Observer
from beacon_router.service.region_runs import RegionRuns
from beacon_router.service.run_controller import Engine, RunRules
from beacon_router.service.timers import Timers


@dataclass(frozen=True, slots=True)
class ShellRules:
    runs: RunRules
    breakers: BreakerRules
    admission: AdmissionRules
    held: HeldBounds
    stop_grace_s: float


class DispatchService:
    """`stop` is the graceful one: refuse, answer those who wait, finish what runs within the grace."""

    name = "dispatch"

    def __init__(
        self,
        topology: Topology,
        scheduler: Scheduler,
        rules: ShellRules,
        *,
        backends: Mapping[str, Backend],
        clock: Clock,
        observer: Observer,
    ) -> None:
        self._rules = rules
        self._stopped = asyncio.Event()
        self.scheduler = scheduler
        self.clock = clock
        self.timers = Timers(clock)
        self.held = Held(rules.held)
        self.breakers = Breakers(
            (backend.name for backend in topology.backends),
            rules.breakers,
            scheduler=scheduler,
            clock=clock,
            timers=self.timers,
        )
        self.engine = Engine(
            scheduler,
            rules.runs,
            held=self.held,
            breakers=self.breakers,
            timers=self.timers,
            clock=clock,
            observer=observer,
        )
        self.breakers.on_change(self.engine.pump)
        regions = {
            region.name: RegionRuns(region.name, backends, self.engine.run_ended)
            for region in topology.regions
        }
        self.engine.own(regions.values())
        admission = Admission(
            rules.admission,
            topology,
            scheduler=scheduler,
            breakers=self.breakers,
            held=self.held,
            waiting=self.engine.waiting,
        )
        self.dispatcher = Dispatcher(
            self.engine, admission, held=self.held, regions=regions, timers=self.timers, clock=clock
        )

    async def start(self) -> None:
        self.timers.start()

    async def wait(self) -> None:
        """Runs report their own failures; the timers are what must not die unnoticed."""
        stopped = asyncio.ensure_future(self._stopped.wait())
        failed = asyncio.ensure_future(self.timers.failed.wait())
        try:
            await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            failed.cancel()
        if self.timers.failure is not None:
            raise self.timers.failure

    async def stop(self) -> None:
        await self.dispatcher.drain(self._rules.stop_grace_s)
        await self.timers.close()
        self._stopped.set()
