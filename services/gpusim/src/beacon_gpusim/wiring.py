"""Builds the simulator from its settings."""

import asyncio
import os
from itertools import count
from random import Random, SystemRandom

from beacon_gpusim.core.calls import CallLedger
from beacon_gpusim.core.durations import DurationModel
from beacon_gpusim.core.faults import FaultRules
from beacon_gpusim.core.gpu import Gpu
from beacon_gpusim.core.memory import ModelMemory
from beacon_gpusim.engine import SimulationEngine
from beacon_gpusim.http.app import SimulatorApp
from beacon_gpusim.http.call_endpoint import CallRules
from beacon_gpusim.http.proxy_timeout import ProxyTimeout
from beacon_gpusim.ledger_file import LedgerFile
from beacon_gpusim.settings import GpusimSettings
from beacon_http.server import HttpServer
from beacon_lifecycle import Supervisor

CRASH_EXIT_CODE = 70


class GpuFactory:
    """Builds the GPU of these settings, again at each reset; call numbers continue across resets."""

    def __init__(self, settings: GpusimSettings) -> None:
        self._settings = settings
        self._durations = settings.model_durations()
        self._seed = settings.seed if settings.seed is not None else SystemRandom().getrandbits(64)
        self._numbers = count(1)

    def __call__(self) -> Gpu:
        settings = self._settings
        return Gpu(
            region=settings.region,
            slots=settings.slots,
            memory=ModelMemory(settings.loaded_models),
            durations=DurationModel(
                self._durations,
                default=settings.default_durations(),
                scale=settings.time_scale,
                # Two streams: a fault rule must not change how long the other calls take.
                random=Random(f"{self._seed}:times"),  # noqa: S311
            ),
            faults=FaultRules(Random(f"{self._seed}:faults")),  # noqa: S311
            ledger=CallLedger(settings.ledger_size),
            media=settings.media(),
            numbers=self._numbers,
        )


class Simulation:
    """The state behind the HTTP server; stopped after the server."""

    name = "simulation"

    def __init__(self, engine: SimulationEngine, app: SimulatorApp, ledger_file: LedgerFile | None) -> None:
        self._engine = engine
        self._app = app
        self._ledger_file = ledger_file
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        """Nothing to start."""

    async def wait(self) -> None:
        await self._stopped.wait()

    async def stop(self) -> None:
        self._engine.abort_all()
        await self._app.close()
        if self._ledger_file is not None and not self._stopped.is_set():
            self._ledger_file.close()
        self._stopped.set()


async def build(settings: GpusimSettings) -> Supervisor:
    fresh_gpu = GpuFactory(settings)
    ledger_file = LedgerFile(settings.ledger_file) if settings.ledger_file else None
    engine = SimulationEngine(
        fresh_gpu(),
        crash=lambda: os._exit(CRASH_EXIT_CODE),
        record=ledger_file.record if ledger_file else None,
    )
    proxy_timeout = ProxyTimeout(engine, settings.proxy_timeout_s)
    rules = CallRules(settings.body_bytes, settings.unknown_models == "refuse")
    app = SimulatorApp(engine, proxy_timeout, rules, control=settings.control, fresh_gpu=fresh_gpu)
    server = HttpServer(
        app,
        host=settings.host,
        port=settings.port,
        stop_grace_s=settings.stop_grace_s,
        websockets=True,
        on_grace_over=engine.abort_all,
        ready_file=settings.ready_file,
    )
    return Supervisor([Simulation(engine, app, ledger_file), server])
