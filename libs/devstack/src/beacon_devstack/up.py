"""`beacon up` and `beacon demo`: the stack in one terminal, until a signal or the end of the demo."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from beacon_devstack.credentials import read_credentials
from beacon_devstack.demo import DEMO_TIMEOUT_S, show_matrix
from beacon_devstack.errors import AlreadyRunningError, DevstackError
from beacon_devstack.home import Home
from beacon_devstack.processes.log_tail import LogTail
from beacon_devstack.settings import StackSettings
from beacon_devstack.stack import Stack
from beacon_devstack.terminal import Terminal
from beacon_lifecycle import SystemClock

FAILED = 1
DEMO_TIMEOUT = "BEACON_DEMO_TIMEOUT_S"
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_up(home: Path | None = None) -> int:
    """Run everything until Ctrl-C or SIGTERM; returns the exit code."""
    terminal = Terminal()
    return asyncio.run(_until_signal(lambda: _up(terminal, home), terminal, stopped=0))


def run_demo(home: Path | None = None) -> int:
    """Run everything, put the demo matrix through it, print the answers, stop; returns the exit code."""
    terminal = Terminal()
    return asyncio.run(_until_signal(lambda: _demo(terminal, home), terminal, stopped=128 + signal.SIGINT))


async def _up(terminal: Terminal, home: Path | None) -> None:
    async with _stack(terminal, _home(home)) as stack:
        terminal.ready(stack.credentials, stack.home)
        clock = SystemClock()
        logs = {name: stack.home.log_of(name) for name in stack.processes}
        follower = LogTail(logs, terminal.log_line, clock=clock)
        await follower.start()
        try:
            await stack.wait()
        finally:
            terminal.step("stopping")
            await follower.stop()


async def _demo(terminal: Terminal, home: Path | None) -> None:
    place = _home(home)
    log = place.log_of("runner")
    timeout_s = float(os.environ.get(DEMO_TIMEOUT) or DEMO_TIMEOUT_S)
    try:
        async with _stack(terminal, place) as stack:
            demo = show_matrix(stack.credentials, terminal.out, log=log, timeout_s=timeout_s)
            await stack.while_alive(demo)
            terminal.step("stopping")
    except AlreadyRunningError:
        running = read_credentials(place)
        if running is None:
            raise
        terminal.step(f"using the system that is already running at {running.portal_url}")
        await show_matrix(running, terminal.out, log=log, timeout_s=timeout_s)


@asynccontextmanager
async def _stack(terminal: Terminal, home: Home) -> AsyncIterator[Stack]:
    settings = StackSettings.from_environment(os.environ)
    async with Stack(home, settings, report=terminal.step) as stack:
        yield stack


def _home(given: Path | None) -> Home:
    return Home.from_environment(os.environ) if given is None else Home.at(given)


async def _until_signal(run: Callable[[], Awaitable[None]], terminal: Terminal, *, stopped: int) -> int:
    """Run to the end; the first signal asks for an ordered stop, and further ones change nothing."""
    task = asyncio.current_task()
    requested = False

    def request_stop() -> None:
        nonlocal requested
        if not requested and task is not None:
            requested = True
            task.cancel()

    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, request_stop)
    try:
        await run()
    except asyncio.CancelledError:
        terminal.step("stopped")
        return stopped
    except DevstackError as error:
        terminal.failure(error)
        return FAILED
    return 0
