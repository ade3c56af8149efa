"""Performs what the GPU decides: timers for loads and runs, and a ticket for every call under way."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable

from beacon_gpusim.core.calls import Call, Outcome
from beacon_gpusim.core.faults import ENDING, FaultKind
from beacon_gpusim.core.gpu import Effect, Gpu, StartLoad

Recorder = Callable[[Call], None]

_ENDS_AS = {FaultKind.ERROR: Outcome.ERROR, FaultKind.CRASH: Outcome.CRASHED, FaultKind.RESET: Outcome.RESET}


class Ticket:
    """A call under way. `started` and `done` exist only when it takes time."""

    __slots__ = ("_started", "call", "done", "timer")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.done: asyncio.Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._started: asyncio.Future[None] | None = None

    async def wait_started(self) -> None:
        """Until the model runs, or the call is over before that."""
        if self.call.started is None and self.call.outcome is None:
            self._started = asyncio.get_running_loop().create_future()
            await self._started

    async def wait_done(self, timeout_s: float | None = None) -> bool:
        """Until the call is over; false when the timeout came first."""
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


class Engine:
    """Runs calls on the GPU in real time; `crash` ends the process when a fault says so.

    `now` is the clock that all processes of a machine have in common: their ledgers are compared by it, and
    a clock of each one's own that is off by a millisecond shows calls at once that were not.
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
        self._tickets: dict[int, Ticket] = {}
        self._loads: dict[str, asyncio.TimerHandle] = {}

    def submit(self, request_id: str, dialect: str, model: str) -> Ticket:
        """Let a call in; its outcome is set at once when it was refused or took no time."""
        call, effects = self.gpu.arrive(request_id=request_id, dialect=dialect, model=model, now=self.now())
        call.at = self.unix()
        ticket = Ticket(call)
        if self._record is not None:
            self._record(call)
        if call.outcome is not None:
            return ticket
        self._tickets[call.seq] = ticket
        self._strike_later(ticket)
        self._perform(effects)
        if call.outcome is None:
            ticket.done = asyncio.get_running_loop().create_future()
        return ticket

    def abort(self, ticket: Ticket) -> None:
        """The client is gone: the slot is free from this moment."""
        self._finish(ticket, Outcome.ABORTED)

    def release(self, most: int | None = None) -> int:
        """End runs that a fault holds, as if they had come to their end by themselves; says how many."""
        calls = self.gpu.release(most)
        for call in calls:
            self._finish(self._tickets[call.seq], Outcome.COMPLETED)
        return len(calls)

    def replace(self, gpu: Gpu) -> None:
        """Start over on a fresh GPU: whatever ran is aborted, whatever loaded is gone."""
        self.abort_all()
        self.gpu = gpu

    def abort_all(self) -> None:
        for ticket in list(self._tickets.values()):
            self.abort(ticket)
        for timer in self._loads.values():
            timer.cancel()
        self._loads.clear()

    def _strike_later(self, ticket: Ticket) -> None:
        """An ending fault comes at its own moment, in the middle of load or run if need be."""
        fault = ticket.call.fault
        if fault is None or fault.kind not in ENDING:
            return
        outcome = _ENDS_AS[fault.kind]
        if fault.strikes_at_once():
            self._finish(ticket, outcome)
        else:
            loop = asyncio.get_running_loop()
            ticket.timer = loop.call_later(fault.after_s, self._finish, ticket, outcome)

    def _perform(self, effects: Iterable[Effect]) -> None:
        """One after the other, also those that these cause: a chain of instant runs must not recurse."""
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
            self._run(self._tickets[effect.call.seq], effect.seconds)

    def _run(self, ticket: Ticket, seconds: float) -> None:
        ticket.signal_started()
        if seconds <= 0:
            self._finish(ticket, Outcome.COMPLETED)
        elif math.isfinite(seconds):
            loop = asyncio.get_running_loop()
            ticket.timer = loop.call_later(seconds, self._finish, ticket, Outcome.COMPLETED)

    def _loaded(self, model: str) -> None:
        del self._loads[model]
        self._perform(self.gpu.load_done(model, self.now()))

    def _finish(self, ticket: Ticket, outcome: Outcome) -> None:
        if ticket.call.outcome is not None:
            return
        effects = self.gpu.finish(ticket.call, outcome, self.now())
        del self._tickets[ticket.call.seq]
        if self._record is not None:
            self._record(ticket.call)
        if outcome is Outcome.CRASHED:
            self._crash()
        ticket.signal_done()
        self._perform(effects)
