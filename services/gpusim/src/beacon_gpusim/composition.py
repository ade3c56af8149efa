"""Puts the simulation together from its settings."""

import asyncio
import os
from itertools import count
from random import Random, SystemRandom

from beacon_gpusim.core.calls import Ledger
from beacon_gpusim.core.faults import FaultBook
from beacon_gpusim.core.gpu import Gpu
from beacon_gpusim.core.memory import ModelMemory
from beacon_gpusim.core.times import Timetable
from beacon_gpusim.engine import Engine
from beacon_gpusim.http.control import build_rest
from beacon_gpusim.http.door import Door, DoorRules
from beacon_gpusim.http.proxy_cut import ProxyCut
from beacon_gpusim.http.wire import OpenProtocol
from beacon_gpusim.ledger_file import LedgerFile
from beacon_gpusim.settings import Settings
from beacon_lifecycle import Supervisor
from beacon_lifecycle.http_server import HttpServer

CRASH_EXIT_CODE = 70


class GpuFactory:
    """Makes the GPU of these settings, and again at each reset; call numbers go on across resets."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._times = settings.model_times()
        self._seed = settings.seed if settings.seed is not None else SystemRandom().getrandbits(64)
        self._numbers = count(1)

    def __call__(self) -> Gpu:
        settings = self._settings
        return Gpu(
            region=settings.region,
            slots=settings.slots,
            memory=ModelMemory(settings.loaded_models),
            times=Timetable(
                self._times,
                default=settings.default_times(),
                scale=settings.time_scale,
                # Two streams: a fault rule must not change how long the other calls take.
                random=Random(f"{self._seed}:times"),  # noqa: S311
            ),
            faults=FaultBook(Random(f"{self._seed}:faults")),  # noqa: S311
            ledger=Ledger(settings.ledger_size),
            numbers=self._numbers,
        )


class Simulation:
    """What the server serves, as a service of its own: it ends after the server."""

    name = "simulation"

    def __init__(self, engine: Engine, door: Door, ledger_file: LedgerFile | None) -> None:
        self._engine = engine
        self._door = door
        self._ledger_file = ledger_file
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        """Nothing to wait for."""

    async def wait(self) -> None:
        await self._stopped.wait()

    async def stop(self) -> None:
        self._engine.abort_all()
        await self._door.close()
        if self._ledger_file is not None and not self._stopped.is_set():
            self._ledger_file.close()
        self._stopped.set()


async def build(settings: Settings) -> Supervisor:
    fresh_gpu = GpuFactory(settings)
    ledger_file = LedgerFile(settings.ledger_file) if settings.ledger_file else None
    engine = Engine(
        fresh_gpu(),
        crash=lambda: os._exit(CRASH_EXIT_CODE),
        record=ledger_file.record if ledger_file else None,
    )
    proxy_cut = ProxyCut(engine, settings.proxy_cut_s)
    rest = build_rest(engine, proxy_cut, access=settings.control, fresh_gpu=fresh_gpu)
    rules = DoorRules(settings.body_bytes, settings.unknown_models == "refuse")
    door = Door(engine, proxy_cut, rules, rest=rest)
    server = HttpServer(
        door,
        host=settings.host,
        port=settings.port,
        stop_grace_s=settings.stop_grace_s,
        on_grace_over=engine.abort_all,
        ready_file=settings.ready_file,
        protocol=OpenProtocol,
    )
    return Supervisor([Simulation(engine, door, ledger_file), server])
