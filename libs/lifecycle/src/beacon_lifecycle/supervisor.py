"""Starts services in order, watches them, and stops them in reverse order within a bound."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import structlog
import uvloop

from beacon_lifecycle.service import Service

log = structlog.get_logger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_CANCEL_TIMEOUT_S = 1.0


class Supervisor:
    """Owns the services of one process. If one ends unexpectedly, all are stopped and `run` raises its error.

    `stop_timeout_s` bounds the stop of each service. A service whose `start` was interrupted is stopped too.
    """

    def __init__(self, services: Sequence[Service], *, stop_timeout_s: float = 30.0) -> None:
        self._services = list(services)
        self._stop_timeout_s = stop_timeout_s
        self._stop_requested = asyncio.Event()

    def request_stop(self) -> None:
        self._stop_requested.set()

    async def run(self) -> None:
        begun: list[Service] = []
        watches: dict[asyncio.Task[None], str] = {}
        stop = asyncio.create_task(self._stop_requested.wait(), name="supervisor:stop")
        try:
            for service in self._services:
                begun.append(service)
                if not await self._start(service, stop, watches):
                    return
                log.debug("service_started", service=service.name)
                watches[_watch(service)] = service.name
            await asyncio.wait({stop, *watches}, return_when=asyncio.FIRST_COMPLETED)
            _raise_unexpected_end(watches)
        finally:
            await _cancel(stop, *watches)
            await self._stop_all(begun)

    async def _start(
        self, service: Service, stop: asyncio.Task[Literal[True]], watches: Mapping[asyncio.Task[None], str]
    ) -> bool:
        """False when a stop was requested first. Raises at once if a started service ends unexpectedly."""
        starting = asyncio.create_task(service.start(), name=f"supervisor:start:{service.name}")
        try:
            await asyncio.wait({starting, stop, *watches}, return_when=asyncio.FIRST_COMPLETED)
            _raise_unexpected_end(watches)
        finally:
            if not starting.done():
                await self._bounded(starting, "service_start_not_cancelled", service.name)
        if stop.done() and (starting.cancelled() or not starting.done()):
            return False
        await starting
        return not stop.done()

    async def _stop_all(self, services: Sequence[Service]) -> None:
        for service in reversed(services):
            stopping = asyncio.create_task(service.stop(), name=f"supervisor:stop:{service.name}")
            await asyncio.wait({stopping}, timeout=self._stop_timeout_s)
            if not stopping.done():
                log.error("service_stop_timed_out", service=service.name, after_s=self._stop_timeout_s)
                await self._bounded(stopping, "service_stop_abandoned", service.name)
            elif not stopping.cancelled() and (error := stopping.exception()) is not None:
                log.error("service_stop_failed", service=service.name, exc_info=error)

    async def _bounded(self, task: asyncio.Task[None], event: str, service: str) -> None:
        """Cancel the task and wait for its end, at most `_CANCEL_TIMEOUT_S`."""
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_TIMEOUT_S)
        if not task.done():
            log.error(event, service=service)


def _watch(service: Service) -> asyncio.Task[None]:
    return asyncio.create_task(service.wait(), name=f"supervisor:{service.name}")


def _raise_unexpected_end(watches: Mapping[asyncio.Task[None], str]) -> None:
    for task, name in watches.items():
        if task.done():
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            log.error("service_died", service=name, error=repr(error))
            raise RuntimeError(f"{name} ended unexpectedly: {error!r}") from error


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def run_process(build: Callable[[], Awaitable[Supervisor]]) -> int:
    """Run one process to its end on uvloop; SIGTERM and SIGINT ask it to stop, SIGHUP does not end it.

    Returns the exit code.
    """

    async def main() -> int:
        supervisor = await build()
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, supervisor.request_stop)
        try:
            await supervisor.run()
        except Exception as error:
            log.exception("process_failed", error=str(error))
            return 1
        return 0

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # only a service that reloads something handles it
    return uvloop.run(main())
