"""Measures how soon a job's body runs on an idle system. Standard library only, as system.py.

The worker is another process. A job contains the time when it was sent; its body writes its age
to a file that the sender follows. The clock is the machine's monotonic one, the same in all processes.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

from benchmarks.harness.system import until

WARM_UP = 5
READY_WITHIN_S = 30.0
NEXT_WITHIN_S = 10.0
LOOK_EVERY_S = 0.002
SECOND_WORKER_READY_S = 4.0
HEARTBEAT_PHASE_S = 5.0  # varies the time of the kill between two heartbeats
RECOVERED_WITHIN_S = 90.0
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.1

Send = Callable[[float], Awaitable[object]]


def arrived(sent: float) -> None:
    """Called by the body of a job."""
    os.write(_arrivals(), f"{time.monotonic() - sent}\n".encode())


async def measure(count: int, send: Send, *worker: str, seed: int = 1) -> list[float]:
    """Start the worker (a module with arguments), then send single jobs at random intervals."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", *worker) if worker else None
    random, log = Random(seed), _Follower(_path())
    try:
        await send(time.monotonic())
        await log.wait_for(1, READY_WITHIN_S)
        for sent in range(2, WARM_UP + count + 1):
            await asyncio.sleep(random.uniform(SHORTEST_PAUSE_S, LONGEST_PAUSE_S))
            await send(time.monotonic())
            await log.wait_for(sent, NEXT_WITHIN_S)
    finally:
        if process is not None:
            process.kill()
            await process.wait()
    return log.latencies()[WARM_UP:]


async def recover(send: Send, *worker: str, seed: int = 1) -> float:
    """Kill -9 the worker that runs a job; the seconds until another one, which was idle, runs it again.

    The bodies of this worker never end.
    """
    log, processes = _Follower(_path()), []
    try:
        processes.append(await asyncio.create_subprocess_exec(sys.executable, "-m", *worker))
        await send(time.monotonic())
        await log.wait_for(1, READY_WITHIN_S)
        processes.append(await asyncio.create_subprocess_exec(sys.executable, "-m", *worker))
        await asyncio.sleep(SECOND_WORKER_READY_S + Random(seed).uniform(0, HEARTBEAT_PHASE_S))
        processes[0].kill()
        killed = time.monotonic()
        await log.wait_for(2, RECOVERED_WITHIN_S)
        return time.monotonic() - killed
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class _Follower:
    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(b"")

    def latencies(self) -> list[float]:
        return [float(line) for line in self._path.read_bytes().split()]

    async def wait_for(self, lines: int, within_s: float) -> None:
        async def there() -> bool:
            return self._path.read_bytes().count(b"\n") >= lines

        async with asyncio.timeout(within_s):
            await until(there, LOOK_EVERY_S)


def _path() -> Path:
    return Path(os.environ["BENCH_ARRIVALS"])


@cache
def _arrivals() -> int:
    return os.open(_path(), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
