"""The interface of a measured system, inside its process. Standard library only, for all environments."""

import asyncio
import importlib
import inspect
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

LOOK_EVERY_S = 0.01


class MeasuredSystem(Protocol):
    """Times are seconds. Each method is called once, in this order; inapplicable ones are left out."""

    async def prepare(self) -> None:
        """Prepare the system before jobs are queued."""

    async def fill(self, count: int) -> None:
        """Queue that many empty jobs; no worker runs yet."""

    async def drain(self, count: int) -> float:
        """Run all of them: from the start of the first until the last result is recorded."""

    async def pickup(self, count: int) -> list[float]:
        """Queue one job at a time on an idle system: from the call that queues it until its body runs."""

    async def close(self) -> None: ...


class Progress:
    """Counts bodies and results in the process that works."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.done = 0
        self.wanted = 0
        self.last = 0.0
        self.complete = asyncio.Event()

    def body(self) -> None:
        if self.first is None:
            self.first = time.monotonic()

    def recorded(self, count: int = 1) -> None:
        self.done += count
        if self.done >= self.wanted:
            self.last = time.monotonic()
            self.complete.set()

    def seconds(self) -> float:
        if self.first is None:
            raise RuntimeError("no job was started")
        return (self.last or time.monotonic()) - self.first


_started = False


def note_start() -> None:
    """Called by job bodies in any process: records when the first of each process started."""
    global _started  # noqa: PLW0603 - once a process, at the price of one comparison
    if not _started:
        _started = True
        with Path(os.environ["BENCH_STARTS"]).open("a", encoding="ascii") as starts:
            starts.write(f"{time.monotonic()}\n")


async def until_recorded(count: int, results: Callable[[], int | Awaitable[int]]) -> float:
    """The seconds of a drain whose bodies call `note_start`, by polling the recorded results."""

    async def complete() -> bool:
        found = results()
        return (found if isinstance(found, int) else await found) >= count

    await until(complete, LOOK_EVERY_S)
    return time.monotonic() - _first_start()


async def until(condition: Callable[[], Awaitable[bool]], every_s: float) -> None:
    """Poll, because the condition changes in another process that sends no signal."""
    while not await condition():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(every_s)


def _first_start() -> float:
    return min(map(float, Path(os.environ["BENCH_STARTS"]).read_text(encoding="ascii").split()))


def options() -> Mapping[str, Any]:
    """The settings of this system's variant."""
    found: Mapping[str, Any] = json.loads(os.environ.get("BENCH_OPTIONS", "{}"))
    return found


def run(system: Callable[[], object], work: Callable[[], object]) -> None:
    """The entry of a system's module: answer commands, or run the worker with the argument `work`."""
    if sys.argv[1:2] == ["work"]:
        worked = work()
        if inspect.iscoroutine(worked):
            _loop_run(worked)
    else:
        serve(system())


def serve(system: object) -> None:
    """Answer one command a line until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries is no answer
    _loop_run(_serve(system, answers.write))


def _loop_run(main: Coroutine[Any, Any, Any]) -> None:
    """On uvloop, for all asyncio systems."""
    uvloop: Any = importlib.import_module("uvloop")
    uvloop.run(main)


async def _serve(system: object, write: Any) -> None:
    commands: asyncio.Queue[str] = asyncio.Queue()
    _listen(asyncio.get_running_loop(), commands)
    while True:
        command = json.loads(await commands.get())
        try:
            answer = getattr(system, command["do"])(**command.get("with", {}))
            if inspect.isawaitable(answer):
                answer = await answer
            write(json.dumps({"answer": answer}) + "\n")
        except Exception as error:  # noqa: BLE001 - reported to the parent, which decides
            traceback.print_exc()
            write(json.dumps({"error": repr(error)}) + "\n")


def _listen(loop: asyncio.AbstractEventLoop, commands: "asyncio.Queue[str]") -> None:
    """In a thread, because a command can block the loop; when the parent has ended, the group ends."""

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(commands.put_nowait, line)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=read, name="commands", daemon=True).start()
