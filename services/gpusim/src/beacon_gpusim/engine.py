"""Performs the decisions of the GPU: timers for loads and runs, and a handle for every running call."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable

from beacon_gpusim.core.calls import Call, CallOutcome
from beacon_gpusim.core.faults import ENDING, FaultKind
from beacon_gpusim.core.gpu import Effect, Gpu, StartLoad

Recorder = Callable[[Call], None]

_ENDS_AS = {
    FaultKind.ERROR: CallOutcome.ERROR,
    FaultKind.CRASH: CallOutcome.CRASHED,
    FaultKind.RESET: CallOutcome.RESET,
}


class CallHandle:
    """A running call. `done` is None when the call ended at once."""

    __slots__ = ("_started", "call", "done", "timer")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.done: asyncio.Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._started: asyncio.Future[None] | None = None

    async def wait_started(self) -> None:
        """Wait until the run has started, or the call has ended without one."""
        if self.call.started is None and self.call.outcome is None:
            self._started = asyncio.get_running_loop().create_future()
            await self._started

    async def wait_done(self, timeout_s: float | None = None) -> bool:
        """Wait until the call has ended; false when the timeout passed first."""
        if self.done is None:
            return True
        done, _ = await asyncio.wait({self.done}, timeout=timeout_s)
        return bool(done)

    def signal_started(self) -> None:
        if self._started is not None and not self._started.done():
            self._started.set_result(None)

    def signal_done(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.signal_started()
        if self.done is not None and not self.done.done():
            self.done.set_result(None)


class SimulationEngine:
    """Runs calls on the GPU in real time; `crash` ends the process for a crash fault.

    `now` is the machine's monotonic clock, shared by all processes: their ledgers are compared
    by it, and an offset of a millisecond would show calls as concurrent that were not.
    """

    def __init__(
        self,
        gpu: Gpu,
        *,
        now: Callable[[], float] = time.monotonic,
        unix: Callable[[], float] = time.time,
        crash: Callable[[], None],
        record: Recorder | None = None,
    ) -> None:
        self.gpu = gpu
        self.now = now
        self.unix = unix
        self._crash = crash
        self._record = record
        self._effects: deque[Effect] = deque()
        self._performing = False
        self._handles: dict[int, CallHandle] = {}
        self._loads: dict[str, asyncio.TimerHandle] = {}

    def submit(self, request_id: str, dialect: str, model: str) -> CallHandle:
        """Accept a call; its outcome is set on return when it was refused or took no time."""
        call, effects = self.gpu.arrive(request_id=request_id, dialect=dialect, model=model, now=self.now())
        call.at = self.unix()
        handle = CallHandle(call)
        if self._record is not None:
            self._record(call)
        if call.outcome is not None:
            return handle
        self._handles[call.seq] = handle
        self._schedule_fault(handle)
        self._perform(effects)
        if call.outcome is None:
            handle.done = asyncio.get_running_loop().create_future()
        return handle

    def abort(self, handle: CallHandle) -> None:
        """The client disconnected: release the slot now."""
        self._finish(handle, CallOutcome.ABORTED)

    def release(self, most: int | None = None) -> int:
        """Complete the runs that a hold fault keeps running; returns their number."""
        calls = self.gpu.release(most)
        for call in calls:
            self._finish(self._handles[call.seq], CallOutcome.COMPLETED)
        return len(calls)

    def replace(self, gpu: Gpu) -> None:
        """Continue on a new GPU; running calls are aborted and loads cancelled."""
        self.abort_all()
        self.gpu = gpu

    def abort_all(self) -> None:
        for handle in list(self._handles.values()):
            self.abort(handle)
        for timer in self._loads.values():
            timer.cancel()
        self._loads.clear()

    def _schedule_fault(self, handle: CallHandle) -> None:
        """An ending fault occurs at its own time, also during a load or run."""
        fault = handle.call.fault
        if fault is None or fault.kind not in ENDING:
            return
        outcome = _ENDS_AS[fault.kind]
        if fault.ends_at_once():
            self._finish(handle, outcome)
        else:
            loop = asyncio.get_running_loop()
            handle.timer = loop.call_later(fault.after_s, self._finish, handle, outcome)

    def _perform(self, effects: Iterable[Effect]) -> None:
        """Sequentially, including the effects that these cause: a chain of instant runs must not recurse."""
        self._effects.extend(effects)
        if self._performing:
            return
        self._performing = True
        try:
            while self._effects:
                self._perform_one(self._effects.popleft())
        finally:
            self._performing = False

    def _perform_one(self, effect: Effect) -> None:
        if isinstance(effect, StartLoad):
            loop = asyncio.get_running_loop()
            self._loads[effect.model] = loop.call_later(effect.seconds, self._loaded, effect.model)
        else:
            self._run(self._handles[effect.call.seq], effect.seconds)

    def _run(self, handle: CallHandle, seconds: float) -> None:
        handle.signal_started()
        if seconds <= 0:
            self._finish(handle, CallOutcome.COMPLETED)
        elif math.isfinite(seconds):
            loop = asyncio.get_running_loop()
            handle.timer = loop.call_later(seconds, self._finish, handle, CallOutcome.COMPLETED)

    def _loaded(self, model: str) -> None:
        del self._loads[model]
        self._perform(self.gpu.load_done(model, self.now()))

    def _finish(self, handle: CallHandle, outcome: CallOutcome) -> None:
        if handle.call.outcome is not None:
            return
        effects = self.gpu.finish(handle.call, outcome, self.now())
        del self._handles[handle.call.seq]
        if self._record is not None:
            self._record(handle.call)
        if outcome is CallOutcome.CRASHED:
            self._crash()
        handle.signal_done()
        self._perform(effects)
