"""Starts services in order, watches them, and stops them in reverse order within a bound."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence

import structlog
import uvloop

from beacon_lifecycle.service import Service

log = structlog.get_logger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Supervisor:
    """Owns the services of a process: if one dies unexpectedly, all stop and `run` raises what killed it."""

    def __init__(self, services: Sequence[Service], *, stop_timeout_s: float = 30.0) -> None:
        self._services = list(services)
        self._stop_timeout_s = stop_timeout_s
        self._stop_requested = asyncio.Event()

    def request_stop(self) -> None:
        self._stop_requested.set()

    async def run(self) -> None:
        started: list[Service] = []
        try:
            for service in self._services:
                await service.start()
                started.append(service)
                log.debug("service_started", service=service.name)
            await self._until_stop_or_death(started)
        finally:
            await self._stop_all(started)

    async def _until_stop_or_death(self, services: Sequence[Service]) -> None:
        stop = asyncio.create_task(self._stop_requested.wait(), name="supervisor:stop")
        watches = {asyncio.create_task(s.wait(), name=f"supervisor:{s.name}"): s.name for s in services}
        try:
            await asyncio.wait({stop, *watches}, return_when=asyncio.FIRST_COMPLETED)
            dead = [(task, name) for task, name in watches.items() if task.done()]
        finally:
            for task in (stop, *watches):
                task.cancel()
            await asyncio.gather(stop, *watches, return_exceptions=True)
        for task, name in dead:
            error = task.exception()
            log.error("service_died", service=name, error=repr(error))
            raise RuntimeError(f"{name} ended unexpectedly: {error!r}") from error

    async def _stop_all(self, services: Sequence[Service]) -> None:
        for service in reversed(services):
            try:
                await asyncio.wait_for(service.stop(), self._stop_timeout_s)
            except TimeoutError:
                log.warning("service_stop_timed_out", service=service.name, after_s=self._stop_timeout_s)
            except Exception:
                log.exception("service_stop_failed", service=service.name)


def run_process(build: Callable[[], Awaitable[Supervisor]]) -> int:
    """Run one process to its end on uvloop; SIGTERM and SIGINT ask it to stop. Returns the exit code."""

    async def main() -> int:
        supervisor = await build()
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, supervisor.request_stop)
        try:
            await supervisor.run()
        except RuntimeError:
            return 1
        return 0

    return uvloop.run(main())
